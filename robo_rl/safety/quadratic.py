"""The quadratic programme of the barrier filter: the nearest point that satisfies linear constraints."""

import numpy as np
import quadprog
from numpy.typing import NDArray

Array = NDArray[np.float64]

TOLERANCE = 1e-9


def nearest_point(wanted: Array, normals: Array, offsets: Array, lower: Array, upper: Array) -> Array | None:
    """Return the point (k,) nearest to ``wanted`` with ``normals @ point >= offsets`` within bounds, or None.

    None means that there is no such point. If a single constraint is violated, the point is computed in closed form (a
    projection), provided that it satisfies the others; otherwise the dual active-set method of Goldfarb and Idnani
    (1983) is used.

    Args:
        wanted: (k,).
        normals: (m, k).
        offsets: (m,).
        lower: bounds (k,).
        upper: bounds (k,).
    """
    start: Array = np.minimum(np.maximum(wanted, lower), upper)  # takes a fifth of the time of np.clip
    lacking = (offsets - normals @ start).tolist()
    violated = [row for row, lack in enumerate(lacking) if lack > TOLERANCE]
    if not violated:
        return start
    if len(violated) == 1:
        worst = violated[0]
        normal = normals[worst]
        square = float(normal @ normal)
        if square > TOLERANCE:
            point: Array = start + normal * (lacking[worst] / square)
            # If the bounds have clipped ``wanted``, the projection of the clipped point need not be the nearest point.
            conditions = (
                point >= lower - TOLERANCE,
                point <= upper + TOLERANCE,
                start == wanted,
                normals @ point >= offsets - TOLERANCE,
            )
            if all(np.count_nonzero(holds) == len(holds) for holds in conditions):
                return point
    identity = np.eye(len(wanted))
    constraints = np.concatenate([normals, identity, -identity]).T
    try:
        solution: Array = quadprog.solve_qp(identity, wanted, constraints, np.concatenate([offsets, lower, -upper]))[0]
    except ValueError:  # quadprog's error for contradictory constraints
        return None
    return solution

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
    start: Array = np.clip(wanted, lower, upper)
    lacking = offsets - normals @ start
    violated = lacking > TOLERANCE
    if not violated.any():
        return start
    if violated.sum() == 1:
        worst = int(lacking.argmax())
        normal = normals[worst]
        square = float(normal @ normal)
        if square > TOLERANCE:
            point: Array = start + normal * (lacking[worst] / square)
            inside = (point >= lower - TOLERANCE).all() and (point <= upper + TOLERANCE).all()
            # If the bounds have clipped ``wanted``, the projection of the clipped point need not be the nearest point.
            if inside and (start == wanted).all() and (normals @ point >= offsets - TOLERANCE).all():
                return point
    identity = np.eye(len(wanted))
    constraints = np.concatenate([normals, identity, -identity]).T
    try:
        solution: Array = quadprog.solve_qp(identity, wanted, constraints, np.concatenate([offsets, lower, -upper]))[0]
    except ValueError:  # quadprog's error for contradictory constraints
        return None
    return solution

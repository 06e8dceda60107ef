"""The quadratic programme of the barrier filter: the nearest point that keeps linear constraints."""

import numpy as np
import quadprog
from numpy.typing import NDArray

Array = NDArray[np.float64]

TOLERANCE = 1e-9


def nearest_point(wanted: Array, normals: Array, offsets: Array, lower: Array, upper: Array) -> Array | None:
    """Return the point (k,) nearest to ``wanted`` with ``normals @ point >= offsets`` within bounds; None if none is.

    One constraint that is violated is answered in closed form (a projection), where that keeps the others; else by the
    dual active-set method of Goldfarb and Idnani (1983).

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
            # With ``wanted`` cut by the bounds, the projection of what is left need not be the nearest point.
            if inside and (start == wanted).all() and (normals @ point >= offsets - TOLERANCE).all():
                return point
    identity = np.eye(len(wanted))
    constraints = np.concatenate([normals, identity, -identity]).T
    try:
        solution: Array = quadprog.solve_qp(identity, wanted, constraints, np.concatenate([offsets, lower, -upper]))[0]
    except ValueError:  # how quadprog says that the constraints contradict each other
        return None
    return solution

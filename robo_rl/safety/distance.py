"""The distance of two geoms, by MuJoCo's query and, if that is not positive, by a quadratic programme."""

from typing import Any

import mujoco
import numpy as np
import quadprog
from numpy.typing import NDArray

Array = NDArray[np.float64]

SPHERE = int(mujoco.mjtGeom.mjGEOM_SPHERE)
CAPSULE = int(mujoco.mjtGeom.mjGEOM_CAPSULE)
BOX = int(mujoco.mjtGeom.mjGEOM_BOX)
REGULARISATION = 1e-10
"""Regularisation of the quadratic programme: parallel faces have many nearest points."""
TOUCHING = 1e-6
"""Distance that cannot be distinguished from an overlap [m]: rounding may leave a little between overlapping geoms."""


def geom_distance(model: Any, data: Any, first: int, second: int, far: float, points: Array) -> float:
    """Return the distance of two geoms [m], at most ``far``; negative where they overlap.

    MuJoCo 3.11's native query, measured on random primitives, is right wherever it is positive. It is 0 for one in
    forty pairs of boxes that are apart, and for one in millions of pairs of boxes the distance has the wrong sign.
    (MuJoCo's other method, libccd, errs by centimetres on boxes and cylinders.) So spheres, capsules and boxes whose
    distance is not positive are measured again.

    Args:
        model: compiled MuJoCo model.
        data: MuJoCo state, with the geoms in place.
        first: index of a geom.
        second: index of another geom.
        far: largest distance that is returned [m].
        points: array that receives the nearest points of the first and of the second geom (6,).
    """
    distance = float(mujoco.mj_geomDistance(model, data, first, second, far, points))
    if distance > 0.0 or not {int(model.geom_type[first]), int(model.geom_type[second])} <= {SPHERE, CAPSULE, BOX}:
        return distance
    nearest = np.empty(6)
    measured = _distance(model, data, first, second, nearest)
    if measured <= TOUCHING:
        return distance
    points[:] = nearest
    return min(measured, far)


def _distance(model: Any, data: Any, first: int, second: int, points: Array) -> float:
    """Return the distance of two rounded boxes [m]. A capsule is a rounded line, a sphere a rounded point."""
    (half, radius), (other_half, other_radius) = (_rounded_box(model, geom) for geom in (first, second))
    halves = np.concatenate([half, other_half])
    free = np.nonzero(halves)[0]
    axes = np.hstack([data.geom_xmat[first].reshape(3, 3), -data.geom_xmat[second].reshape(3, 3)])
    apart = data.geom_xpos[second] - data.geom_xpos[first]
    places, moved = np.zeros(6), axes[:, free]
    if len(free):
        squared = moved.T @ moved + REGULARISATION * np.eye(len(free))
        sides = np.concatenate([np.eye(len(free)), -np.eye(len(free))]).T
        places[free] = quadprog.solve_qp(squared, moved.T @ apart, sides, -np.tile(halves[free], 2))[0]
    first_point = data.geom_xpos[first] + axes[:, :3] @ places[:3]
    second_point = data.geom_xpos[second] - axes[:, 3:] @ places[3:]
    length = float(np.linalg.norm(second_point - first_point))
    towards = (second_point - first_point) / max(length, 1e-12)
    points[:3], points[3:] = first_point + radius * towards, second_point - other_radius * towards
    return length - radius - other_radius


def _rounded_box(model: Any, geom: int) -> tuple[Array, float]:
    """Return half sizes (3,) of a geom's inner box, and the radius by which the geom is larger [m]."""
    size, kind = model.geom_size[geom], int(model.geom_type[geom])
    if kind == BOX:
        return np.array(size), 0.0
    return np.array([0.0, 0.0, size[1] if kind == CAPSULE else 0.0]), float(size[0])

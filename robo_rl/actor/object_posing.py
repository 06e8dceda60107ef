"""Poses of the objects of a task in a MuJoCo model, from what is observed of them.

Each task observes its objects in its own way: positions, offsets from the end effector, angles, directions of edges.
Their poses are therefore found by the Gauss-Newton method, as those of which the task would observe the same.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MOST_COORDINATES = 36
"""Largest number of coordinates that are searched for; objects with more, such as cables, are not posed."""
MOST_ITERATIONS = 20
LONGEST_STEP = 0.1
"""Largest change of a coordinate in one iteration [m or rad]."""
DIFFERENCE = 1e-5
"""Change of a coordinate for derivatives [m or rad]."""
TOLERANCE = 0.01
"""Largest difference between an element of the observation and the one of the pose found; noise is smaller."""
CONVERGED = 1e-6
UNOBSERVED = 1e-5
"""Change of the observation by a unit of a coordinate below which it counts as none."""
SEEN = 1e-3
"""Change of an element by a unit of a coordinate above which the element has to agree with the pose found."""
RELUCTANCE = 0.01
"""Weight of the motion of coordinates that are the same at all starts, such as the tilt of a door's frame."""
LOOSE = 0.05
"""Motion of a shape that the observation does not show [m/m or m/rad] above which its pose is unknown."""
VARIES = 1e-6


class ObjectPosing:
    """The search for the poses of all bodies that an arm's joints do not move.

    Args:
        model: compiled model.
        arm: places in ``qpos`` of the arm's joints and fingers, which are known.
        read: returns the observation (m,) of the objects in a state whose kinematics are computed.
        starts: states (``mujoco.MjData``) in which episodes begin. A coordinate that is the same in all of them is
            taken to stay the same where the observation leaves it open.

    Attributes:
        bodies: numbers of the bodies that are moved.
    """

    def __init__(self, model: Any, arm: Collection[int], read: Callable[[Any], Array], starts: Sequence[Any]) -> None:
        self._model, self._read, self._arm = model, read, list(arm)
        own = [each for each in range(model.njnt) if int(model.jnt_qposadr[each]) not in arm]
        sizes = {mujoco.mjtJoint.mjJNT_FREE: 6, mujoco.mjtJoint.mjJNT_BALL: 3}
        self._dofs = [
            int(model.jnt_dofadr[each]) + place
            for each in own
            for place in range(sizes.get(mujoco.mjtJoint(int(model.jnt_type[each])), 1))
        ]
        self._size = len(self._dofs) + 6 * model.nmocap
        roots = {int(model.jnt_bodyid[each]) for each in own} | set(np.flatnonzero(model.body_mocapid >= 0).tolist())
        self.bodies = [each for each in range(1, model.nbody) if _ancestors(model, each) & roots]
        self._starts = [_state(start) for start in starts]
        self._scale = np.where(self._varies(starts), 1.0, RELUCTANCE)
        self._points = [(each, _point_axes(model, each)) for each in range(model.ngeom)]
        self._points = [pair for pair in self._points if int(model.geom_bodyid[pair[0]]) in set(self.bodies)]

    def place(self, data: Any, observed: Array) -> set[int] | None:
        """Move the objects to where the task would observe ``observed`` (m,); return the bodies whose pose is known.

        The search begins with their poses in ``data``, and then in those of the starts. If it finds no such poses, the
        objects stay where they were, and None is returned.
        """
        if not 0 < self._size <= MOST_COORDINATES:
            return set()
        arm, before = data.qpos[self._arm].copy(), _state(data)
        for start in (before, *self._starts):
            data.qpos[:], data.mocap_pos[:], data.mocap_quat[:] = start
            data.qpos[self._arm] = arm
            if (known := self._search(data, observed)) is not None:
                return known
        data.qpos[:], data.mocap_pos[:], data.mocap_quat[:] = before
        mujoco.mj_kinematics(self._model, data)
        return None

    def _search(self, data: Any, observed: Array) -> set[int] | None:
        """Find the poses from those in ``data``; return the bodies whose pose is known, None if there are no poses."""
        for _ in range(MOST_ITERATIONS):
            difference, jacobian, moved = self._derivatives(data, observed)
            left, values, right = np.linalg.svd(jacobian * self._scale)
            count = int((values > UNOBSERVED).sum())
            step = self._scale * (right[:count].T @ ((left[:, :count].T @ difference) / values[:count]))
            step /= max(1.0, float(np.abs(step).max()) / LONGEST_STEP)
            self._move(data, step)
            if float(np.abs(step).max()) < CONVERGED:
                break
        mujoco.mj_kinematics(self._model, data)
        is_seen = np.abs(jacobian).max(axis=1) > SEEN  # other elements, such as speeds, tell nothing of poses
        if is_seen.any() and float(np.abs(difference[is_seen]).max()) > TOLERANCE:
            return None
        free = self._scale[:, None] * right[count:].T
        loose = {body for body, change in moved if np.abs(change @ free).max(initial=0.0) > LOOSE}
        return {body for body in self.bodies if body not in loose}

    def _varies(self, starts: Sequence[Any]) -> NDArray[np.bool_]:
        """Return which coordinates (n,) differ between starts; those of objects with joints of one axis always may."""
        model, first = self._model, starts[0]
        differences = [np.zeros(self._size)]
        for other in starts[1:]:
            velocity, turn = np.zeros(model.nv), np.zeros(3)
            mujoco.mj_differentiatePos(model, velocity, 1.0, first.qpos, other.qpos)
            parts = [velocity[self._dofs]]
            for number in range(model.nmocap):
                mujoco.mju_subQuat(turn, other.mocap_quat[number], first.mocap_quat[number])
                parts += [other.mocap_pos[number] - first.mocap_pos[number], turn.copy()]
            differences.append(np.concatenate(parts))
        varies = np.abs(differences).max(axis=0) > VARIES
        joints = model.jnt_type[model.dof_jntid[self._dofs]]
        varies[: len(self._dofs)] |= joints != int(mujoco.mjtJoint.mjJNT_FREE)
        return np.asarray(varies, np.bool_)

    def _derivatives(self, data: Any, observed: Array) -> tuple[Array, Array, list[tuple[int, Array]]]:
        """Return the difference to the observation (m,), its derivatives (m, n), and those of shapes (k, n) by body."""
        start = _state(data)
        mujoco.mj_kinematics(self._model, data)
        value, shapes = self._observation(data), self._shapes(data)
        columns, changes = [], []
        for each in range(self._size):
            self._move(data, DIFFERENCE * np.eye(self._size)[each])
            mujoco.mj_kinematics(self._model, data)
            columns.append((self._observation(data) - value) / DIFFERENCE)
            changes.append([(one - other) / DIFFERENCE for one, other in zip(self._shapes(data), shapes, strict=True)])
            data.qpos[:], data.mocap_pos[:], data.mocap_quat[:] = start
        mujoco.mj_kinematics(self._model, data)
        bodies = [int(self._model.geom_bodyid[number]) for number, _ in self._points]
        moved = [
            (body, np.stack(parts, axis=1)) for body, parts in zip(bodies, zip(*changes, strict=True), strict=True)
        ]
        return observed - value, np.stack(columns, axis=1), moved

    def _observation(self, data: Any) -> Array:
        return np.asarray(self._read(data), np.float64)

    def _shapes(self, data: Any) -> list[Array]:
        """Return points (k,) of each shape that show its place and, where it has one, its orientation."""
        shapes = []
        for number, axes in self._points:
            centre, frame = data.geom_xpos[number], data.geom_xmat[number].reshape(3, 3)
            ends = centre + self._model.geom_rbound[number] * frame[:, axes].T
            shapes.append(np.concatenate([centre, ends.ravel()]))
        return shapes

    def _move(self, data: Any, step: Array) -> None:
        """Add a step (n,) to the coordinates."""
        velocity, dofs = np.zeros(self._model.nv), len(self._dofs)
        velocity[self._dofs] = step[:dofs]
        mujoco.mj_integratePos(self._model, data.qpos, velocity, 1.0)
        for number, part in enumerate(step[dofs:].reshape(-1, 6)):
            data.mocap_pos[number] += part[:3]
            mujoco.mju_quatIntegrate(data.mocap_quat[number], part[3:], 1.0)


def _state(data: Any) -> tuple[Array, Array, Array]:
    """Return copies of everything that places bodies."""
    return data.qpos.copy(), data.mocap_pos.copy(), data.mocap_quat.copy()


def _ancestors(model: Any, body: int) -> set[int]:
    """Return a body and those that it is attached to."""
    bodies = set()
    while body:
        bodies.add(body)
        body = int(model.body_parentid[body])
    return bodies


def _point_axes(model: Any, geom: int) -> list[int]:
    """Return the axes of a shape that show its orientation: a sphere has none, and a cylinder looks alike all round."""
    kind = mujoco.mjtGeom(int(model.geom_type[geom]))
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return []
    return [2] if kind in (mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_CAPSULE) else [0, 1, 2]

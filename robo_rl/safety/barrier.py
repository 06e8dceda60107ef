"""Control barrier functions: the robot keeps clear of itself and of keep-out volumes."""

import copy
import math
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import PASSED, ConfigError, Observation, RobotDescription, Verdict, nearest

from .kinematics import Kinematics
from .motion import Action, ActionMap, ArmReader
from .quadratic import nearest_point

Array = NDArray[np.float64]

JOINTS_APART = 3
"""Links with fewer joints between them touch or overlap by construction and are not watched."""


class Clearance(NamedTuple):
    """Of one pair of geoms that is near.

    Attributes:
        distance: between the surfaces [m]; negative where they overlap.
        gradient: by joint positions (n,) [m/rad].
    """

    distance: float
    gradient: Array


class _Pair(NamedTuple):
    """Two geoms that are near: their ``distance`` [m], and the nearest ``points`` (6,) of the first and the second."""

    first: int
    second: int
    distance: float
    points: Array


class Clearances:
    """Distances between the arm's links, and between them and keep-out volumes, by MuJoCo's own queries.

    Args:
        robot: its model has the collision geoms of the arm (those that can touch something).
        kinematics: of the robot.
        keep_out: names of geoms of the model that the arm keeps away from.
        reach: only pairs nearer than this are looked at [m].

    Raises:
        ConfigError: if the model has no such geom.
    """

    def __init__(
        self, robot: RobotDescription, kinematics: Kinematics, keep_out: tuple[str, ...], reach: float
    ) -> None:
        self._data, self._kinematics = kinematics.data, kinematics
        # MuJoCo's native collision code (3.11) gives distance 0 for about one in ten pairs of boxes far apart; libccd
        # does not. A copy, as the robot's physics goes on as it is.
        self._model = copy.deepcopy(robot.model)
        self._model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_NATIVECCD
        self._reach = reach
        model = robot.model
        depth = self._depths(robot)
        arm = [
            geom
            for geom in range(model.ngeom)
            if model.geom_bodyid[geom] in depth and (model.geom_contype[geom] or model.geom_conaffinity[geom])
        ]
        level = {geom: depth[model.geom_bodyid[geom]] for geom in arm}
        pairs = [(a, b) for a in arm for b in arm if level[b] - level[a] >= JOINTS_APART]
        names = [model.geom(geom).name for geom in range(model.ngeom)]
        for name in keep_out:
            if name not in names:
                raise ConfigError(
                    f"safety.barrier.keep_out: the robot's model has no geom {name!r}: "
                    f"{nearest(name, [name for name in names if name])}"
                )
            pairs += [(names.index(name), geom) for geom in arm if level[geom] >= 2]  # what stands on it is not moved
        self._pairs = np.array(pairs, dtype=np.int32).reshape(-1, 2)
        bounds = np.where(model.geom_rbound > 0, model.geom_rbound, np.inf)  # planes have none
        self._bounds = bounds[self._pairs].sum(axis=1) + reach
        self._bodies = model.geom_bodyid.tolist()
        self._points = np.empty(6)
        self._jacobians = np.empty((2, 3, model.nv))

    def _depths(self, robot: RobotDescription) -> dict[int, int]:
        """Return the number of joints between the base and each body of the arm."""
        model = robot.model
        joints = [int(model.joint(name).bodyid[0]) for name in robot.joints]
        base = int(model.body_parentid[joints[0]])
        depth = {base: 0} if base > 0 else {}
        for body in range(base + 1, model.nbody):
            parent = int(model.body_parentid[body])
            if parent in depth or body == joints[0]:
                depth[body] = depth.get(parent, 0) + (body in joints)
        return depth

    def keeps(self, margin: float, joints: Array, path: Array) -> bool:
        """Whether each posture of ``path`` (m, n) is clear by ``margin`` [m], or by what ``joints`` (n,) is if less."""
        far = min(self.smallest(posture) for posture in path)
        return far >= margin or far >= min(margin, self.smallest(joints)) - 1e-6

    def near(self, joints: Array) -> list[Clearance]:
        """Return the clearances of all pairs that are near at joint positions (n,)."""
        pairs = self._near_pairs(joints)
        if pairs:
            mujoco.mj_comPos(self._model, self._data)  # Jacobians need it
        return [Clearance(pair.distance, self._gradient(pair)) for pair in pairs]

    def smallest(self, joints: Array) -> float:
        """Return the smallest distance of all pairs [m], at most ``reach``."""
        return min((pair.distance for pair in self._near_pairs(joints)), default=self._reach)

    def _near_pairs(self, joints: Array) -> list[_Pair]:
        self._kinematics.place(joints)
        model, data, pairs = self._model, self._data, self._pairs
        centres = data.geom_xpos
        apart = centres[pairs[:, 0]] - centres[pairs[:, 1]]
        candidates = np.nonzero(np.einsum("ij,ij->i", apart, apart) < self._bounds**2)[0]
        found = []
        for first, second in pairs[candidates].tolist():
            distance = mujoco.mj_geomDistance(model, data, first, second, self._reach, self._points)
            if distance < self._reach:
                found.append(_Pair(first, second, distance, self._points.copy()))
        return found

    def _gradient(self, pair: _Pair) -> Array:
        model, data, geoms, distance = self._model, self._data, (pair.first, pair.second), pair.distance
        one, other = pair.points[:3], pair.points[3:]
        apart = other - one
        length = math.hypot(*apart.tolist())
        if length < 1e-9:  # they just touch: from centre to centre is the best that is known
            apart, distance = data.geom_xpos[pair.second] - data.geom_xpos[pair.first], 1.0
            length = math.hypot(*apart.tolist()) or 1.0
        normal = apart * math.copysign(1.0 / length, distance)
        for jacobian, point, geom in zip(self._jacobians, (one, other), geoms, strict=True):
            mujoco.mj_jac(model, data, jacobian, None, point, self._bodies[geom])
        change: Array = (normal @ (self._jacobians[1] - self._jacobians[0]))[self._kinematics.dofs]
        return change


class BarrierFilter:
    """Keeps every clearance above a margin, changing the action as little as possible.

    In discrete time (Agrawal and Sreenath 2017): in one step a clearance may lose at most the share ``approach`` of
    what it has above the margin. That is linear in the action; the nearest action is a quadratic programme. Clearances
    are not quite linear, and joints cannot stop at once: :class:`~.joint_limits.JointLimits` comes after and looks at
    the way itself, that of braking included.

    Args:
        margin: smallest clearance [m].
        approach: share of the clearance above the margin that one step may take, in (0, 1].
        clearances: of the robot.
        actions: what actions mean.
        reader: of the observation.
    """

    def __init__(
        self, margin: float, approach: float, clearances: Clearances, actions: ActionMap, reader: ArmReader
    ) -> None:
        self._margin, self._approach = margin, approach
        self._clearances = clearances
        self._actions = actions
        self._reader = reader

    def reset(self) -> None:
        """Nothing to forget."""

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return the nearest action that keeps clear."""
        joints = self._reader.joint_positions(observation)
        near = self._clearances.near(joints)
        if not near:
            return action, PASSED
        changed = action
        matrix, offset = self._actions.linear(observation)
        gradients = np.stack([clearance.gradient for clearance in near])
        room = np.array([clearance.distance for clearance in near]) - self._margin
        # What is closer than the margin already must not come closer still.
        normals = gradients @ matrix
        offsets = -self._approach * np.maximum(room, 0.0) - gradients @ offset
        wanted = action[self._actions.moves].astype(np.float64)
        ones = np.ones(len(wanted))
        if (normals @ wanted < offsets - 1e-6).any():
            point = nearest_point(wanted, normals, offsets, -ones, ones)
            changed = (
                self._actions.hold(observation, action) if point is None else self._actions.with_elements(action, point)
            )
        return changed, PASSED if changed is action else Verdict(changed=True, reasons=("barrier",))

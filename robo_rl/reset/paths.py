"""Collision-free paths of an arm in joint space, checked with the collision detection of MuJoCo."""

import copy
import math

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import RobotDescription, shortest

Array = NDArray[np.float64]

POSTURES_APART = 0.05
"""Largest joint motion between two checked postures of a path [rad]."""
LINE_STEP = 0.02
"""Length of a step along a straight line of the end effector [m]."""
FARTHEST = 50.0
"""Largest distance of a joint from home [rad or m]; a larger one is no measurement, and its path would take minutes."""
SLACK = 0.001
"""How much closer a path that begins too close to something may come [m]. A path up along a wall is not exactly
straight."""
DAMPING = 0.02
"""Damping of the inverse kinematics: damped least squares (Nakamura and Hanafusa 1986)."""
JOINTS_APART = 3
"""Links with fewer joints between them touch or overlap by construction."""
STANDS_STILL = -1
"""Depth of a body that is not part of the arm."""
KEEP_OUT = "keep_out"
"""Prefix of the names of geoms that have no contacts in the model but that the arm keeps away from."""
FRESH = 1 << 30
"""A bit of a geom's collision type that models do not use."""


class ArmPaths:
    """The postures, straight lines and paths home of an arm.

    Collisions of the arm with itself and with everything fixed are checked. Movable objects, such as those of a task,
    are ignored, because the model does not contain their current positions.

    Args:
        robot: description of the robot, whose model has the collision geoms.
        clearance: distance that postures keep, unless a path begins with a smaller one [m].
    """

    def __init__(self, robot: RobotDescription, clearance: float) -> None:
        self._clearance = clearance
        model = self._model = copy.deepcopy(robot.model)
        # The midphase uses a tree of bounding boxes of the geoms with contacts, which lacks the keep-out volumes.
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_MIDPHASE
        self._data = mujoco.MjData(model)
        joints = [model.joint(name) for name in robot.joints]
        self._qpos = np.array([joint.qposadr[0] for joint in joints])
        self._dofs = np.array([joint.dofadr[0] for joint in joints])
        self._endless = robot.endless
        self._site = model.site(robot.end_effector).id
        self._jacobian = np.empty((6, model.nv))
        self._depth = _depths(model, [int(joint.bodyid[0]) for joint in joints])
        fixed = model.body_weldid == 0
        for geom in range(model.ngeom):
            body = int(model.geom_bodyid[geom])
            collides = model.geom_contype[geom] or model.geom_conaffinity[geom]
            is_keep_out = model.geom(geom).name.startswith(KEEP_OUT)
            is_arm = self._depth[body] >= 0
            # With this bit, only the arm against itself and against fixed geoms is checked.
            is_checked = collides if is_arm else fixed[body] and (collides or is_keep_out)
            model.geom_contype[geom] = FRESH if is_arm and is_checked else 0
            model.geom_conaffinity[geom] = FRESH if is_checked else 0
        model.body_contype[:] = model.body_conaffinity[:] = FRESH
        model.geom_margin[:] = model.body_margin[:] = clearance

    def pose(self, joints: Array) -> tuple[Array, Array]:
        """Return the position (3,) [m] and rotation (3, 3) of the end effector in the base frame for a posture (n,)."""
        self._place(joints)
        return self._data.site_xpos[self._site].copy(), self._data.site_xmat[self._site].reshape(3, 3).copy()

    def room(self, joints: Array) -> float:
        """Return the smallest distance of the arm from itself and from fixed geoms in a posture (n,) [m].

        It is at most the clearance, and negative if geoms overlap.
        """
        self._place(joints)
        mujoco.mj_collision(self._model, self._data)
        contacts = self._data.contact
        depth = self._depth[self._model.geom_bodyid[contacts.geom]]
        with_world = depth.min(axis=1) == STANDS_STILL
        # Links that are one joint from the base cannot move away from the surface under the base.
        is_checked = np.where(with_world, depth.max(axis=1) >= 2, np.ptp(depth, axis=1) >= JOINTS_APART)
        return float(min(contacts.dist[is_checked].min(initial=self._clearance), self._clearance))

    def is_clear(self, path: Array) -> bool:
        """Return whether all postures of ``path`` (m, n) keep the clearance.

        If the first posture has less, they have to keep about its distance.
        """
        first_room, full_room = self.room(path[0]), self._clearance - 1e-6
        required = first_room - SLACK if first_room < full_room else full_room
        return all(self.room(posture) >= required for posture in path[1:])

    def line(self, joints: Array, target: Array) -> Array:
        """Return postures (m, n) from ``joints`` that move the end effector in a straight line to ``target`` (3,) [m].

        The end effector does not rotate. If it cannot reach the target, the line ends near it.
        """
        path = [joints]
        start = self.pose(joints)[0]
        steps = max(1, math.ceil(float(np.linalg.norm(target - start)) / LINE_STEP))
        for number in range(1, steps + 1):
            joints = path[-1]
            displacement = start + (target - start) * number / steps - self.pose(joints)[0]
            mujoco.mj_comPos(self._model, self._data)
            mujoco.mj_jacSite(self._model, self._data, self._jacobian[:3], self._jacobian[3:], self._site)
            jacobian = self._jacobian[:, self._dofs]
            motion = np.concatenate([displacement, np.zeros(3)])
            path.append(joints + jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + DAMPING**2 * np.eye(6), motion))
        return np.stack(path)

    def between(self, first: Array, last: Array) -> Array:
        """Return postures (m, n) from ``first`` to ``last``, interpolated in joint space.

        Endless joints turn in the shorter direction.
        """
        difference = shortest(last - first, self._endless)
        steps = max(1, math.ceil(float(np.abs(difference).max()) / POSTURES_APART))
        return first + np.linspace(0.0, 1.0, steps + 1)[:, None] * difference

    def home(self, joints: Array, home: Array, height: float, aside: Array) -> Array | None:
        """Return a clear path (m, n) from ``joints`` to ``home``, or None if neither candidate is clear.

        There is none either if a joint is farther than :data:`FARTHEST` from home, or not a number.

        The first candidate goes up to ``height`` and then straight through joint space. The second one goes up, back
        to a point above home, and then through joint space.

        Args:
            joints: first posture (n,) [rad].
            home: posture at home (n,) [rad].
            height: height to which the end effector is raised [m].
            aside: shift (3,) of the point above home [m].
        """
        if not np.isfinite(joints).all() or np.abs(shortest(home - joints, self._endless)).max() > FARTHEST:
            return None
        start, end = self.pose(joints)[0], self.pose(home)[0]
        lift_target = np.array([start[0], start[1], max(start[2], height)])
        lifted = self.line(joints, lift_target)
        above_home = np.array([end[0], end[1], max(lift_target[2], float(end[2]))]) + aside
        for approach in (lifted, np.concatenate([lifted, self.line(lifted[-1], above_home)])):
            path = np.concatenate([approach, self.between(approach[-1], home)])
            if self.is_clear(path):
                return path
        return None

    def _place(self, joints: Array) -> None:
        self._data.qpos[self._qpos] = joints
        mujoco.mj_kinematics(self._model, self._data)


def _depths(model: mujoco.MjModel, bodies: list[int]) -> NDArray[np.int64]:
    """Return for each body the number of the arm's joints, on ``bodies``, between it and the base."""
    depth = np.full(model.nbody, STANDS_STILL)
    base = int(model.body_parentid[bodies[0]])
    if base > 0:
        depth[base] = 0
    for body in range(base + 1, model.nbody):
        parent = int(model.body_parentid[body])
        if body == bodies[0] or depth[parent] >= 0:
            depth[body] = max(depth[parent], 0) + (body in bodies)
    return depth

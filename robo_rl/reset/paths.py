"""Paths of an arm in joint space that touch nothing, checked with MuJoCo's own collision detection."""

import copy
import math

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import RobotDescription, shortest

Array = NDArray[np.float64]

POSTURES_APART = 0.05
"""Largest joint motion between two postures of a path that are checked [rad]."""
LINE_STEP = 0.02
"""Length of a step along a straight line of the end effector [m]."""
SLACK = 0.001
"""By which a path that begins too near to something may come nearer: up along a wall it is not quite straight [m]."""
DAMPING = 0.02
"""Of the inverse kinematics: damped least squares (Nakamura and Hanafusa 1986)."""
JOINTS_APART = 3
"""Links with fewer joints between them touch or overlap by construction."""
STANDS_STILL = -1
"""In the place of a number of joints: not a part of the arm."""
KEEP_OUT = "keep_out"
"""Geoms of a model whose names begin so touch nothing, and are kept away from all the same."""
FRESH = 1 << 30
"""Bit of a geom's collision type that models leave unused."""


class ArmPaths:
    """Postures, straight lines and ways home of an arm.

    What is watched: the arm against itself and against everything that cannot move. What can move (the objects of a
    task) is not: where it is, the model does not know.

    Args:
        robot: its model has the collision geoms.
        clearance: distance that postures keep, or what they begin with where that is less [m].
    """

    def __init__(self, robot: RobotDescription, clearance: float) -> None:
        self._clearance = clearance
        model = self._model = copy.deepcopy(robot.model)
        # The tree of boxes that it goes by was made of what touches something; keep-out volumes are not in it.
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
            kept_out = model.geom(geom).name.startswith(KEEP_OUT)
            is_arm = self._depth[body] >= 0
            # A bit of our own: the arm meets itself and what stands still, and nothing else meets anything.
            watched = collides if is_arm else fixed[body] and (collides or kept_out)
            model.geom_contype[geom] = FRESH if is_arm and watched else 0
            model.geom_conaffinity[geom] = FRESH if watched else 0
        model.body_contype[:] = model.body_conaffinity[:] = FRESH
        model.geom_margin[:] = model.body_margin[:] = clearance

    def pose(self, joints: Array) -> tuple[Array, Array]:
        """Return the end effector's position (3,) [m] and rotation (3, 3) in the base frame in a posture (n,)."""
        self._place(joints)
        return self._data.site_xpos[self._site].copy(), self._data.site_xmat[self._site].reshape(3, 3).copy()

    def room(self, joints: Array) -> float:
        """Return the smallest distance of a posture (n,), at most the clearance [m]; negative where links overlap."""
        self._place(joints)
        mujoco.mj_collision(self._model, self._data)
        contacts = self._data.contact
        depth = self._depth[self._model.geom_bodyid[contacts.geom]]
        with_world = depth.min(axis=1) == STANDS_STILL
        # What is one joint from the base cannot move away from what the base stands on.
        watched = np.where(with_world, depth.max(axis=1) >= 2, np.ptp(depth, axis=1) >= JOINTS_APART)
        return float(min(contacts.dist[watched].min(initial=self._clearance), self._clearance))

    def is_clear(self, path: Array) -> bool:
        """Whether every posture of ``path`` (m, n) keeps the clearance, or about what the first has if that is less."""
        first, clear = self.room(path[0]), self._clearance - 1e-6
        kept = first - SLACK if first < clear else clear
        return all(self.room(posture) >= kept for posture in path[1:])

    def line(self, joints: Array, target: Array) -> Array:
        """Return postures (m, n) from ``joints`` along which the end effector goes straight to ``target`` (3,) [m].

        It does not turn on the way. Where it cannot reach the target the line ends near it.
        """
        path = [joints]
        start = self.pose(joints)[0]
        steps = max(1, math.ceil(float(np.linalg.norm(target - start)) / LINE_STEP))
        for number in range(1, steps + 1):
            joints = path[-1]
            away = start + (target - start) * number / steps - self.pose(joints)[0]
            mujoco.mj_comPos(self._model, self._data)
            mujoco.mj_jacSite(self._model, self._data, self._jacobian[:3], self._jacobian[3:], self._site)
            jacobian = self._jacobian[:, self._dofs]
            wanted = np.concatenate([away, np.zeros(3)])
            path.append(joints + jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + DAMPING**2 * np.eye(6), wanted))
        return np.stack(path)

    def between(self, first: Array, last: Array) -> Array:
        """Return postures (m, n) from ``first`` to ``last``, interpolated joint by joint.

        Endless joints go the shorter way round.
        """
        way = shortest(last - first, self._endless)
        steps = max(1, math.ceil(float(np.abs(way).max()) / POSTURES_APART))
        return first + np.linspace(0.0, 1.0, steps + 1)[:, None] * way

    def home(self, joints: Array, home: Array, height: float, aside: Array) -> Array | None:
        """Return a clear path (m, n) from ``joints`` to ``home``; None if none of those that are tried is clear.

        Up to ``height``, then straight through joint space; or up, back to above where home is, then through joint
        space.

        Args:
            joints: posture (n,) [rad].
            home: posture (n,) [rad].
            height: of the end effector that is gone up to [m].
            aside: (3,), by which the point above home is shifted [m].
        """
        start, end = self.pose(joints)[0], self.pose(home)[0]
        above = np.array([start[0], start[1], max(start[2], height)])
        lifted = self.line(joints, above)
        back = np.array([end[0], end[1], max(above[2], float(end[2]))]) + aside
        for way in (lifted, np.concatenate([lifted, self.line(lifted[-1], back)])):
            path = np.concatenate([way, self.between(way[-1], home)])
            if self.is_clear(path):
                return path
        return None

    def _place(self, joints: Array) -> None:
        self._data.qpos[self._qpos] = joints
        mujoco.mj_kinematics(self._model, self._data)


def _depths(model: mujoco.MjModel, bodies: list[int]) -> NDArray[np.int64]:
    """Return for each body how many of the arm's joints, on ``bodies``, are between it and the base."""
    depth = np.full(model.nbody, STANDS_STILL)
    base = int(model.body_parentid[bodies[0]])
    if base > 0:
        depth[base] = 0
    for body in range(base + 1, model.nbody):
        parent = int(model.body_parentid[body])
        if body == bodies[0] or depth[parent] >= 0:
            depth[body] = max(depth[parent], 0) + (body in bodies)
    return depth

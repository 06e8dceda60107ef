"""Kinematics of an arm: the pose of its end effector, and how joints move it."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import RobotDescription

Array = NDArray[np.float64]

DAMPING = 0.02
"""Damping of the pseudo-inverse: smaller singular values of the Jacobian (m and rad) cause no boundless motion."""

DAMPED = DAMPING**2 * np.eye(6)


class Kinematics:
    """Kinematics of a robot, with a MuJoCo state of its own. Repeated queries of one posture are computed once.

    Args:
        robot: model, and names of joints and end effector.
    """

    def __init__(self, robot: RobotDescription) -> None:
        model = robot.model
        self.model = model
        self.data = mujoco.MjData(model)
        joints = [model.joint(name) for name in robot.joints]
        self._positions = _indices([int(joint.qposadr[0]) for joint in joints])
        self.dofs = _indices([int(joint.dofadr[0]) for joint in joints])
        self._qpos = self.data.qpos  # looked up once, because a look-up takes as long as a write
        self._site = model.site(robot.end_effector).id
        self._full = np.empty((6, model.nv))
        self._linear, self._angular = self._full[:3], self._full[3:]
        self._site_position, self._site_rotation = self.data.site_xpos[self._site], self.data.site_xmat[self._site]
        self._placed = b""
        self._jacobian: Array | None = None
        self._gram: Array | None = None
        self._factor: Array | None = None

    def place(self, joints: Array) -> None:
        """Put the arm at joint positions (n,) [rad], with all frames."""
        content = joints.tobytes()
        if content == self._placed:
            return
        self._placed = content
        self._jacobian = self._gram = self._factor = None
        self._qpos[self._positions] = joints
        mujoco.mj_kinematics(self.model, self.data)

    def pose(self, joints: Array) -> tuple[list[float], list[float]]:
        """Return the end effector's position (3,) [m] and rotation (9,), row by row, in the base frame."""
        self.place(joints)
        return self._site_position.tolist(), self._site_rotation.tolist()

    def jacobian(self, joints: Array) -> Array:
        """Return the Jacobian (6, n): end-effector velocity [m/s, rad/s] (base frame) by joint velocities [rad/s]."""
        self.place(joints)
        if self._jacobian is None:
            mujoco.mj_comPos(self.model, self.data)
            mujoco.mj_jacSite(self.model, self.data, self._linear, self._angular, self._site)
            self._jacobian = self._full[:, self.dofs]
        return self._jacobian

    def _squared(self, joints: Array) -> Array:
        """Return J J^T (6, 6), which must not be written to."""
        jacobian = self.jacobian(joints)
        if self._gram is None:
            self._gram = jacobian.dot(jacobian.T)  # takes half the time of @
        return self._gram

    def joint_motion(self, joints: Array, displacement: Array) -> Array:
        """Return the joint motion (n,) [rad] for a small displacement (6,) [m, rad] of the end effector.

        Several displacements are the columns of (6, k), and their motions the columns of (n, k). The method is damped
        least squares (Nakamura and Hanafusa 1986).
        """
        jacobian = self.jacobian(joints)
        if self._factor is None:
            self._factor = self._squared(joints) + DAMPED
            mujoco.mju_cholFactor(self._factor, 0.0)
        if displacement.ndim == 1:
            single = np.empty(6)
            mujoco.mju_cholSolve(single, self._factor, displacement)
            motion: Array = single.dot(jacobian)
            return motion
        columns = np.ascontiguousarray(displacement.T)
        solution, solve, factor = np.empty(columns.shape), mujoco.mju_cholSolve, self._factor
        for row, column in zip(solution, columns, strict=True):
            solve(row, factor, column)  # takes a fifth of the time of np.linalg.solve
        motion = jacobian.T @ solution.T
        return motion

    def _smaller_squared(self, joints: Array) -> Array:
        """Return J J^T (6, 6), or J^T J (n, n) for an arm with fewer than six joints, whose J J^T is singular."""
        jacobian = self.jacobian(joints)
        return jacobian.T @ jacobian if len(joints) < 6 else self._squared(joints)

    def condition(self, joints: Array) -> float:
        """Return the Jacobian's condition number; infinite if the posture is singular.

        An arm with fewer than six joints cannot move its end effector in every direction. What counts is whether it
        loses another direction.
        """
        # From the eigenvalues of J J^T: twice as fast as from the singular values, and exact enough up to 1e7.
        smallest, *_, largest = np.linalg.eigvalsh(self._smaller_squared(joints)).tolist()
        return (largest / smallest) ** 0.5 if smallest > 0 else float("inf")


def _indices(numbers: list[int]) -> slice | NDArray[np.int64]:
    """Return an index of the elements ``numbers``: a slice if they are consecutive, which is faster."""
    first = numbers[0]
    if numbers == list(range(first, first + len(numbers))):
        return slice(first, first + len(numbers))
    return np.array(numbers)

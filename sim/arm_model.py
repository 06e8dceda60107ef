"""An arm's kinematics and the meaning of its actions, for the driver of a similar robot."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArmPose, ArmTarget, shortest

from .controller import EndEffectorController, logarithm
from .joint_controller import JointController
from .observation import endless
from .simulation import ArmSimulation
from .way_home import SHARE, Way, WayLimits, joint_motion, schedule

Array = NDArray[np.float64]

ITERATIONS = 12
"""Steps of inverse kinematics, each of which turns no joint by more than :data:`LARGEST_STEP`."""
LARGEST_STEP = 0.2
JOINT_WEIGHT = 0.02
"""Weight of joint motion against the pose's error [Nm/rad]."""


class ArmModel:
    """The targets that the controller of a simulated arm would follow in the posture of a real one.

    An action therefore has the same meaning on a robot as in simulation. Only the way home, along axes that actions do
    not move, takes several targets: it uses at most a share of the arm's limits.

    Args:
        simulation: simulation of an arm, whose model, state and controller are used. Nothing else may step it in the
            meantime.

    Attributes:
        endless: which joints (n,) turn without limits.
        fingers: names of the gripper's joints; empty without a gripper.
        home_opening: opening of the gripper when an episode begins, 0 closed to 1 open.
        finger_strokes: closed and open position (k, 2) of each finger joint [m or rad].
    """

    def __init__(self, simulation: ArmSimulation) -> None:
        model, arm = simulation.model, simulation.config.arm
        self._config = simulation.config.controller
        self._model, self._data, self._controller = model, simulation.data, simulation.controller
        joints = [model.joint(name) for name in arm.joints]
        self.endless = endless(model, arm.joints)
        self.fingers = tuple(arm.gripper_joints) if arm.gripper_actuator is not None else ()
        self.home_opening = arm.home_opening
        self.finger_strokes = simulation.arm.finger_strokes
        self._qpos = np.array([joint.qposadr[0] for joint in joints])
        self._dofs = np.array([joint.dofadr[0] for joint in joints])
        self._site = model.site(arm.end_effector).id
        self._velocity = np.empty(6)
        if isinstance(self._controller, EndEffectorController):
            # Filters do not know of this motion, and not every robot limits what a target far away leads to.
            count = len(joints)
            self._limits = WayLimits(
                arm.command_velocity * np.array(arm.velocity_limits),
                np.full(count, arm.command_acceleration),
                np.full(count, arm.command_jerk),
                np.array([arm.speed_limit, arm.rotation_speed_limit]),
                1 / simulation.config.control_rate,
            )
            self._controller.plan_way_home(self._way_home, *(SHARE * self._limits.speeds * self._limits.period))
        self._moves_gripper = simulation.actions.names[-1] == "gripper"

    def begin(self, joints: Array) -> None:
        """Begin an episode in a posture (n,) [rad or m]."""
        self._place(joints, np.zeros_like(joints))
        self._controller.reset(self._data)

    def pose(self, joints: Array) -> ArmPose:
        """Return the pose of the end effector in a posture (n,) [rad or m]."""
        self._place(joints, np.zeros_like(joints))
        data = self._data
        return ArmPose(data.site_xpos[self._site].copy(), data.site_xmat[self._site].reshape(3, 3).copy())

    def velocity(self, joints: Array, velocities: Array) -> tuple[Array, Array]:
        """Return the linear [m/s] and the angular velocity [rad/s] of the end effector, (3,) each, in the base frame.

        Args:
            joints: posture (n,) [rad or m].
            velocities: joint velocities (n,) [rad/s or m/s].
        """
        self._place(joints, velocities)
        mujoco.mj_objectVelocity(self._model, self._data, mujoco.mjtObj.mjOBJ_SITE, self._site, self._velocity, 0)
        return self._velocity[3:].copy(), self._velocity[:3].copy()

    def target(self, joints: Array, action: NDArray[np.float32]) -> ArmTarget:
        """Return the target that ``action`` (A,) in [-1, 1] means in a posture (n,) [rad or m]."""
        controller = self._controller
        self._place(joints, np.zeros_like(joints))
        controller.command(self._data, action)
        opening = (1.0 - float(action[-1])) / 2 if self._moves_gripper else None
        if isinstance(controller, EndEffectorController):
            rotation = np.empty(9)
            mujoco.mju_quat2Mat(rotation, controller.reference_quaternion)
            return ArmTarget(ArmPose(controller.reference_position.copy(), rotation.reshape(3, 3)), opening=opening)
        assert isinstance(controller, JointController)
        # The nearest to the current angles, up to whole turns, as robots count turns differently.
        return ArmTarget(joints=joints + shortest(controller.goal - joints, self.endless), opening=opening)

    def joints_towards(self, joints: Array, pose: ArmPose) -> Array:
        """Return joint positions (n,) that bring the end effector to ``pose``, or as near as the joints allow.

        Errors are weighted by the controller's stiffness, so that axes without stiffness are free.

        Args:
            joints: posture (n,) from which the search starts [rad or m].
            pose: pose of the end effector.
        """
        controller, data, nv = self._controller, self._data, self._model.nv
        stiffness = np.array(self._config.stiffness)
        lower, upper = np.minimum(controller.lower, joints), np.maximum(controller.upper, joints)
        jacobian, solution = np.empty((6, nv)), joints.copy()
        for _ in range(ITERATIONS):
            self._place(solution, np.zeros_like(solution))
            mujoco.mj_jacSite(self._model, data, jacobian[:3], jacobian[3:], self._site)
            rotation = data.site_xmat[self._site].reshape(3, 3)
            error = np.concatenate([pose.position - data.site_xpos[self._site], logarithm(pose.rotation @ rotation.T)])
            weighted = (jacobian[:, self._dofs] * stiffness[:, None]).T
            square = weighted @ jacobian[:, self._dofs] + JOINT_WEIGHT * np.eye(solution.size)
            step = np.linalg.solve(square, weighted @ error)
            solution = np.clip(solution + np.clip(step, -LARGEST_STEP, LARGEST_STEP), lower, upper)
        return solution

    def _way_home(self, way: Way) -> Array:
        """Return the share of the rest of a way home that each of the next targets leaves (m,)."""
        lengths = way.lengths()
        if not lengths.any():
            return np.zeros(0)
        motion = joint_motion(self._model, self._qpos, self._dofs, self._site, self._data.qpos[self._qpos], way)
        return schedule(lengths, motion, self._limits)

    def _place(self, joints: Array, velocities: Array) -> None:
        data = self._data
        data.qpos[self._qpos] = joints
        data.qvel[:] = 0.0
        data.qvel[self._dofs] = velocities
        mujoco.mj_kinematics(self._model, data)
        mujoco.mj_comPos(self._model, data)
        mujoco.mj_fwdVelocity(self._model, data)

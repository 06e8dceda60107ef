"""Actions from the motion of a leader arm: of its joints, or of its end effector."""

from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    ConfigError,
    EnvSpec,
    RobotDescription,
    check_mjcf,
    matrix_of_vector,
    nearest,
    require,
    shortest,
    vector_of_matrix,
)

from .config import LeaderConfig
from .keys import action_names

Array = NDArray[np.float64]

AXES = ("x", "y", "z", "roll", "pitch", "yaw")


class JointFollowing:
    """Joint motion that copies the leader's; see :class:`~.leader.Following`.

    Args:
        spec: spec of the robot; its action space is ``joint_delta``.
        leader: joints and scales of the leader.

    Raises:
        ConfigError: if their number is not that of the robot's joints.
    """

    def __init__(self, spec: EnvSpec, leader: LeaderConfig) -> None:
        joints = [name for name in spec.action.names if name != "gripper"]
        self.joints = leader.joints or tuple(joints)
        scale = leader.scale or (1.0,) * len(joints)
        for key, values in (("joints", self.joints), ("scale", scale)):
            if len(values) != len(joints):
                raise ConfigError(
                    f"teleop.leader.{key} must be one for each of {', '.join(joints)}, got {len(values)} of them"
                )
        self._scale = np.array(scale, np.float64) / float(spec.extra["joint_scale"])
        self._remaining = np.zeros(len(joints))

    def note(self, before: Array, after: Array) -> None:
        """See :class:`~.leader.Following`."""
        self._remaining += joint_motion(before, after) * self._scale

    def take(self) -> Array:
        """See :class:`~.leader.Following`."""
        action = np.clip(self._remaining, -1, 1)
        self._remaining -= action
        return action

    def forget(self) -> None:
        """See :class:`~.leader.Following`."""
        self._remaining[:] = 0


class EndEffectorFollowing:
    """End-effector motion that copies the leader's, from its forward kinematics; see :class:`~.leader.Following`.

    If actions are in the base frame, the motion is copied in the base frames of the two arms, which face the same way.
    If actions are in the frame of the end effector, the motion is copied in the frames of the two end effectors. A
    motion beyond the range of the actions is shortened in its direction. Axes that the actions do not move are ignored.

    Args:
        spec: spec of the robot; its action space is ``end_effector_delta``.
        leader: model, joints and scales of the leader.
        robot: robot whose model the leader has if ``leader`` names none; None: no such model.

    Raises:
        ConfigError: if the leader's kinematics are unknown, or the actions do not move an end effector.
    """

    def __init__(self, spec: EnvSpec, leader: LeaderConfig, robot: RobotDescription | None) -> None:
        names = action_names(spec)
        self._arm = _leader_arm(leader, robot)
        self.joints = leader.joints or self._arm.joints
        require(not leader.scale, "teleop.leader.scale", "none for actions of an end effector", leader.scale)
        self._moved = [AXES.index(name) for name in names if name != "gripper"]
        scales = [spec.extra.get(f"{kind}_scale", 0.0) for kind in ("translation", "rotation")]
        self._full = np.repeat(np.array(scales, np.float64), 3)
        unknown = [name for name in names if name != "gripper" and not self._full[AXES.index(name)] > 0]
        require(not unknown, "translation_scale and rotation_scale of the task", "above 0", scales)
        self._in_own_frame = spec.action_frame == "end_effector"
        self._translation_scale = leader.translation
        self._shift = np.zeros(3)
        self._turn = np.zeros(3)
        self._rotation = np.eye(3)

    def note(self, before: Array, after: Array) -> None:
        """See :class:`~.leader.Following`."""
        position, rotation = self._arm.pose(before)
        new_position, self._rotation = self._arm.pose(after)
        self._shift += self._translation_scale * (new_position - position)
        self._turn = vector_of_matrix(self._rotation @ rotation.T @ matrix_of_vector(self._turn))

    def take(self) -> Array:
        """See :class:`~.leader.Following`."""
        # The frame that the robot's end effector would have if it had started at the leader's. The remaining rotation
        # is not executed yet.
        frame = matrix_of_vector(self._turn).T @ self._rotation if self._in_own_frame else np.eye(3)
        motion = np.zeros(6)
        motion[self._moved] = np.concatenate([self._shift @ frame, self._turn @ frame])[self._moved]
        part = np.concatenate([_shortened(motion[:3], self._full[0]), _shortened(motion[3:], self._full[3])])
        self._shift, self._turn = frame @ (motion - part)[:3], frame @ (motion - part)[3:]
        return part[self._moved] / self._full[self._moved]

    def forget(self) -> None:
        """See :class:`~.leader.Following`."""
        self._shift, self._turn = np.zeros(3), np.zeros(3)


class Arm:
    """Forward kinematics of an arm, with its own MuJoCo state.

    Args:
        model: model of the arm.
        joints: names of its joints, in the order of the positions.
        end_effector: name of the site at the end effector.
    """

    def __init__(self, model: mujoco.MjModel, joints: tuple[str, ...], end_effector: str) -> None:
        self.joints = joints
        self._model, self._data = model, mujoco.MjData(model)
        self._qpos = np.array([model.joint(name).qposadr[0] for name in joints])
        self._site = model.site(end_effector).id

    def pose(self, positions: Array) -> tuple[Array, Array]:
        """Return position (3,) [m] and rotation (3, 3) of the end effector in the base frame.

        Args:
            positions: joint positions (n,) [rad or m].
        """
        self._data.qpos[self._qpos] = positions
        mujoco.mj_kinematics(self._model, self._data)
        return self._data.site_xpos[self._site].copy(), self._data.site_xmat[self._site].reshape(3, 3).copy()


def _leader_arm(leader: LeaderConfig, robot: RobotDescription | None) -> Arm:
    if leader.model is None:
        if robot is None:
            raise ConfigError(
                "a leader arm that drives an end effector needs its kinematics: give teleop.leader.model, an MJCF file"
            )
        require(
            len(leader.joints) in (0, len(robot.joints)),
            "teleop.leader.joints",
            f"one for each of {', '.join(robot.joints)}",
            leader.joints,
        )
        return Arm(robot.model, robot.joints, robot.end_effector)
    if not Path(leader.model).is_file():
        raise ConfigError(f"teleop.leader.model: there is no file {leader.model}; give the path of an MJCF file")
    check_mjcf(leader.model, "teleop.leader.model")
    try:
        model = mujoco.MjModel.from_xml_path(leader.model)
    except ValueError as error:
        raise ConfigError(f"teleop.leader.model: {leader.model} is not a valid MJCF file: {error}") from error
    sliding = {model.joint(number).name for number in range(model.njnt) if model.jnt_type[number] in (_HINGE, _SLIDE)}
    sites = [model.site(number).name for number in range(model.nsite)]
    require(len(leader.joints) > 0, "teleop.leader.joints", "given with teleop.leader.model", leader.joints)
    for key, names, available in (("joints", leader.joints, sliding), ("end_effector", (leader.end_effector,), sites)):
        for name in names:
            if name not in available:
                raise ConfigError(f"teleop.leader.{key}: {leader.model} has no {name!r}; {nearest(name, available)}")
    return Arm(model, leader.joints, leader.end_effector)


_HINGE, _SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)


def joint_motion(before: Array, after: Array) -> Array:
    """Return the motion of a leader's joints (n,) from one message to the next [rad or m].

    A person cannot turn a joint by half a turn between two messages. A larger difference comes from a servo that turns
    without limits and whose position has wrapped around.
    """
    return shortest(after - before, np.full(len(after), True))


def _shortened(motion: Array, full: float) -> Array:
    """Return a motion (3,), shortened so that no element exceeds ``full``."""
    largest = float(np.abs(motion).max())
    return motion * (full / largest) if largest > full else motion

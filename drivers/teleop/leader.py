"""A leader arm: a second arm that a person moves by hand, over ROS 2."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, ConfigError, EnvSpec, Intervention, RobotDescription

from .config import LeaderConfig, TeleopConfig
from .following import EndEffectorFollowing, JointFollowing, joint_motion
from .keys import GRIPPER_CLOSED, GRIPPER_OPEN
from .motion import Latch
from .topics import Topic, open_teleop_node


class Following(Protocol):
    """Makes actions of a leader's motion.

    Attributes:
        joints: names of the leader's joints as its messages call them.
    """

    @property
    def joints(self) -> tuple[str, ...]: ...

    def note(self, before: NDArray[np.float64], after: NDArray[np.float64]) -> None:
        """Take note that the leader moved from positions (n,) to others [rad or m]."""
        ...

    def take(self) -> NDArray[np.float64]:
        """Return the action, without a gripper's element, that makes as much of the motion as one action can.

        What it makes is not made again, what it does not is made by the next ones.
        """
        ...

    def forget(self) -> None:
        """Leave undone what is not done yet."""
        ...


class _Seen(NamedTuple):
    """The leader's joint positions (n,) [rad or m], and when they came [ns]."""

    positions: NDArray[np.float64]
    stamp_ns: int


class LeaderTeleop:
    """Drives a robot's joints or its end effector as an arm that a person moves by hand (sensor_msgs/msg/JointState).

    What counts is motion: the robot makes that of the leader since the person took over, from wherever both are, at
    most as fast as its actions allow and what is left afterwards. The gripper follows the leader's position.

    Args:
        spec: of the robot; its action must be ``joint_delta`` or ``end_effector_delta``.
        config: topic, joints, gripper.
        clock: monotonic time.
        robot: whose model the leader is an arm of where ``config`` names no other; None: there is no model of it.

    Raises:
        ConfigError: if the robot's action is another, joints and scales are not as many as its own, or the leader's
            kinematics are not known.
    """

    in_base_frame = False

    def __init__(self, spec: EnvSpec, config: TeleopConfig, clock: Clock, robot: RobotDescription | None) -> None:
        leader = config.leader
        self._following = _make_following(spec, leader, robot)
        self._config = leader
        self._grips = "gripper" in spec.action.names
        self._latch = Latch(config.latch_seconds, clock)
        self._closure = GRIPPER_OPEN
        self._last: _Seen | None = None
        self._message = ""
        self._topic = Topic(open_teleop_node(config), "sensor_msgs/msg/JointState", leader.topic, leader.timeout, clock)

    def read(self) -> Intervention:
        """Return what the person does now. Never blocks."""
        last, seen = self._last, self._look()
        moving = False
        if seen is None:
            self._following.forget()
        elif last is not None and seen.stamp_ns > last.stamp_ns:
            motion = np.abs(joint_motion(last.positions, seen.positions)).max()
            speed = motion / ((seen.stamp_ns - last.stamp_ns) * 1e-9)
            moving = bool(speed > self._config.threshold)
            self._following.note(last.positions, seen.positions)
        self._last = seen
        in_control = self._latch(moving)
        if not in_control:
            self._following.forget()
        action = self._following.take()
        if self._grips:
            action = np.append(action, self._closure)
        return Intervention(action.astype(np.float32), in_control, message=self._message)

    def reset(self, closed: bool = False) -> None:
        """Begin an episode or take over, with the gripper open or ``closed``, where the leader has none."""
        if not self._config.gripper:
            self._closure = GRIPPER_CLOSED if closed else GRIPPER_OPEN

    def help(self) -> list[str]:
        """Return what moves the robot, for people."""
        return [f"the leader's {', '.join(self._following.joints)} move the robot"]

    def close(self) -> None:
        """Leave ROS 2."""
        self._topic.close()

    def _look(self) -> _Seen | None:
        """Return where the leader is, None where that is not known. Its gripper is taken note of on the way."""
        came = self._topic.newest()
        if came is None:
            self._message = self._topic.absence
            return None
        message, stamp_ns = came
        found = dict(zip(message.name, message.position, strict=False))
        wanted = [*self._following.joints, *filter(None, [self._config.gripper])]
        missing = [name for name in wanted if not np.isfinite(found.get(name, np.nan))]
        if missing:
            self._message = f"the leader arm gives no position of {', '.join(missing)}, but of {', '.join(found)}"
            return None
        self._message = ""
        if self._config.gripper:
            config = self._config
            closed = (found[config.gripper] - config.open) / (config.closed - config.open)
            self._closure = float(np.clip(2 * closed - 1, GRIPPER_OPEN, GRIPPER_CLOSED))
        return _Seen(np.array([found[name] for name in self._following.joints], np.float64), stamp_ns)


def _make_following(spec: EnvSpec, leader: LeaderConfig, robot: RobotDescription | None) -> Following:
    if spec.action_space == "joint_delta" and "joint_scale" in spec.extra:
        return JointFollowing(spec, leader)
    if spec.action_space == "end_effector_delta":
        return EndEffectorFollowing(spec, leader, robot)
    raise ConfigError(
        f"a leader arm drives joints or an end effector, but the actions of task {spec.task!r} are "
        f"{spec.action_space}: choose task.controller.action_space=joint_delta or end_effector_delta"
    )

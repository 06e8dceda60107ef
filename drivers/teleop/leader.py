"""Leader arm: a second arm over ROS 2 that a person moves by hand."""

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, ConfigError, EnvSpec, Intervention, RobotDescription

from ..ros2 import Message
from .config import LeaderConfig, TeleopConfig
from .following import EndEffectorFollowing, JointFollowing, joint_motion
from .keys import GRIPPER_CLOSED, GRIPPER_OPEN
from .motion import Latch
from .topics import Topic, open_teleop_node


class Following(Protocol):
    """Conversion of a leader's motion to actions.

    Attributes:
        joints: names of the leader's joints in its messages.
    """

    @property
    def joints(self) -> tuple[str, ...]: ...

    def note(self, before: NDArray[np.float64], after: NDArray[np.float64]) -> None:
        """Add the leader's motion between two joint positions (n,) [rad or m]."""
        ...

    def take(self) -> NDArray[np.float64]:
        """Return the action that executes as much of the remaining motion as possible, without the gripper's element.

        The next actions execute the rest.
        """
        ...

    def forget(self) -> None:
        """Discard the motion that is not executed yet."""
        ...


class _Reading(NamedTuple):
    """Joint positions (n,) of the leader [rad or m], and their arrival time [ns]."""

    positions: NDArray[np.float64]
    stamp_ns: int


class LeaderTeleop:
    """Teleoperation by an arm that a person moves by hand (sensor_msgs/msg/JointState): joints or end effector.

    Only motion counts. From wherever both arms are, the robot copies the leader's motion since the person took control,
    at most as fast as its actions allow, and catches up afterwards. The gripper follows the leader's position. Joints
    and gripper may come in messages of their own, and messages that name neither are ignored.

    Args:
        spec: spec of the robot; its action space must be ``joint_delta`` or ``end_effector_delta``.
        config: topic, joints and gripper of the leader.
        clock: monotonic clock.
        robot: robot whose model the leader has if ``config`` names no other; None: no such model.

    Raises:
        ConfigError: if the robot has another action space, if joints and scales do not match it in number, or if the
            leader's kinematics are unknown.
    """

    in_base_frame = False

    def __init__(self, spec: EnvSpec, config: TeleopConfig, clock: Clock, robot: RobotDescription | None) -> None:
        leader = config.leader
        self._following = _make_following(spec, leader, robot)
        self._config = leader
        self._grips = "gripper" in spec.action.names
        self._latch = Latch(config.latch_seconds, clock)
        self._closure = GRIPPER_OPEN
        self._last: _Reading | None = None
        self._message = ""
        self._clock = clock
        self._parts = [self._following.joints, *([(leader.gripper,)] if leader.gripper else [])]
        self._newest: dict[tuple[str, ...], tuple[dict[str, float], int]] = {}
        self._names = ""  # in the newest message
        self._topic = Topic(
            open_teleop_node(config),
            "sensor_msgs/msg/JointState",
            leader.topic,
            leader.timeout,
            clock,
            self._receive,
        )

    def read(self) -> Intervention:
        """Return the person's current action. Never blocks."""
        previous, reading = self._last, self._read_positions()
        moving = False
        if reading is None:
            self._following.forget()
        elif previous is not None and reading.stamp_ns > previous.stamp_ns:
            motion = np.abs(joint_motion(previous.positions, reading.positions)).max()
            speed = motion / ((reading.stamp_ns - previous.stamp_ns) * 1e-9)
            moving = bool(speed > self._config.threshold)
            self._following.note(previous.positions, reading.positions)
        self._last = reading
        in_control = self._latch(moving)
        if not in_control:
            self._following.forget()
        action = self._following.take()
        if self._grips:
            action = np.append(action, self._closure)
        return Intervention(action.astype(np.float32), in_control, message=self._message)

    def reset(self, closed: bool = False) -> None:
        """Begin an episode or an intervention, with the gripper open or ``closed`` if the leader has no gripper."""
        if not self._config.gripper:
            self._closure = GRIPPER_CLOSED if closed else GRIPPER_OPEN

    def help(self) -> list[str]:
        """Return which joints move the robot, for display."""
        return [f"the leader's {', '.join(self._following.joints)} move the robot"]

    def close(self) -> None:
        """Leave ROS 2."""
        self._topic.close()

    def _receive(self, message: Message) -> None:
        """Keep the positions in a message for the parts that it names; called in the node's thread."""
        now_ns, names = self._clock.now_ns(), list(message.name)
        is_whole = len(names) == len(message.position)
        for part in self._parts:
            if not set(part).isdisjoint(names):
                clear = [name for name in part if is_whole and names.count(name) == 1]
                positions = {name: float(message.position[names.index(name)]) for name in clear}
                self._newest[part] = positions, now_ns
        self._names = ", ".join(names) or "no names"

    def _read_positions(self) -> _Reading | None:
        """Return the leader's positions, or None if they are unknown. This also updates the gripper."""
        config = self._config
        if self._topic.newest() is None or not self._names:
            self._message = self._topic.absence
            return None
        positions: dict[str, float] = {}
        oldest_ns = self._clock.now_ns() - round(config.timeout * 1e9)
        parts = [self._newest.get(part, ({}, 0)) for part in self._parts]
        for values, stamp_ns in parts:
            positions |= values if stamp_ns >= oldest_ns else {}
        missing = [name for part in self._parts for name in part if not math.isfinite(positions.get(name, math.nan))]
        if missing:
            self._message = f"the leader arm gives no position of {', '.join(missing)}, but of {self._names}"
            return None
        self._message = ""
        if config.gripper:
            closed = (positions[config.gripper] - config.open) / (config.closed - config.open)
            self._closure = float(np.clip(2 * closed - 1, GRIPPER_OPEN, GRIPPER_CLOSED))
        _, stamp_ns = parts[0]
        return _Reading(np.array([positions[name] for name in self._following.joints], np.float64), stamp_ns)


def _make_following(spec: EnvSpec, leader: LeaderConfig, robot: RobotDescription | None) -> Following:
    if spec.action_space == "joint_delta" and "joint_scale" in spec.extra:
        return JointFollowing(spec, leader)
    if spec.action_space == "end_effector_delta":
        return EndEffectorFollowing(spec, leader, robot)
    raise ConfigError(
        f"a leader arm drives joints or an end effector, but the actions of task {spec.task!r} are "
        f"{spec.action_space}: choose task.controller.action_space=joint_delta or end_effector_delta"
    )

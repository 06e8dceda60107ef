"""Devices of other machines, over ROS 2: Joy, Twist, and the joints of a leader arm."""

from collections.abc import Mapping, Set

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, ConfigError, EnvSpec, Intervention

from ..ros2 import Message, Node, QoSProfile, open_node
from .config import JoyConfig, TeleopConfig
from .keys import GRIPPER_CLOSED, GRIPPER_OPEN, action_names
from .motion import Latch

NODE_NAME = "robo_rl_teleop"
NEWEST = QoSProfile(depth=1, reliability="best_effort")
ROTATIONS = ("roll", "pitch", "yaw")


def open_teleop_node(config: TeleopConfig) -> Node:
    """Open a node for the topics of a device."""
    return open_node(NODE_NAME, config.namespace, config.implementation)


class Topic:
    """The newest message of a topic, unless it is too old.

    Args:
        node: closed with the topic.
        message_type: of the topic.
        name: of the topic.
        timeout: a message older than this does not count, by monotonic time since it came [s].
        clock: monotonic time.
    """

    def __init__(self, node: Node, message_type: str, name: str, timeout: float, clock: Clock) -> None:
        self._node, self._clock, self._timeout_ns = node, clock, round(timeout * 1e9)
        self._subscription = node.create_subscription(message_type, name, qos=NEWEST)
        self._described = f"{message_type} on {self._subscription.topic}"

    @property
    def absence(self) -> str:
        """Why nothing is known, for the person."""
        wrong = next((each.text for each in self._node.problems if each.topic == self._subscription.topic), None)
        return wrong or f"no {self._described}: nothing moves until it is there"

    def newest(self) -> tuple[Message, int] | None:
        """Return the newest message and when it came [ns], None if that is too long ago."""
        came = self._subscription.latest()
        return came if came is not None and self._clock.now_ns() - came[1] <= self._timeout_ns else None

    def close(self) -> None:
        """Leave ROS 2."""
        self._node.close()


class JoyReader:
    """Axes and buttons of sensor_msgs/msg/Joy, called by their numbers; see :class:`~.motion.Reader`.

    Args:
        node: closed with the reader.
        config: topic and time-out.
        clock: monotonic time.
    """

    def __init__(self, node: Node, config: JoyConfig, clock: Clock) -> None:
        self._topic = Topic(node, "sensor_msgs/msg/Joy", config.topic, config.timeout, clock)

    @property
    def absence(self) -> str:
        """See :class:`~.motion.Reader`."""
        return self._topic.absence

    def poll(self) -> tuple[Mapping[str, float], Set[str]] | None:
        """See :class:`~.motion.Reader`."""
        came = self._topic.newest()
        if came is None:
            return None
        message, _ = came
        axes = {str(number): float(value) for number, value in enumerate(message.axes)}
        return axes, {str(number) for number, held in enumerate(message.buttons) if held}

    def close(self) -> None:
        """Leave ROS 2."""
        self._topic.close()


class TwistTeleop:
    """Drives an end effector or a vehicle by geometry_msgs/msg/Twist or TwistStamped, in the frame of the actions.

    A twist that is not zero takes control; one that is too old counts as zero. The gripper stays as it is.

    Args:
        spec: of the robot.
        config: topic, time-out, and speeds of a vehicle.
        clock: monotonic time.

    Raises:
        ConfigError: if the robot's action is another, or it is not known what velocity it means.
    """

    def __init__(self, spec: EnvSpec, config: TeleopConfig, clock: Clock) -> None:
        self._names, twist = action_names(spec), config.twist
        self._full = np.array([_full_speed(spec, name, config) for name in self._names if name != "gripper"])
        self._latch = Latch(config.latch_seconds, clock)
        self._stamped = twist.stamped
        self._closed = False
        message_type = f"geometry_msgs/msg/Twist{'Stamped' if twist.stamped else ''}"
        self._topic = Topic(open_teleop_node(config), message_type, twist.topic, twist.timeout, clock)

    def read(self) -> Intervention:
        """Return what the person does now. Never blocks."""
        came = self._topic.newest()
        action = np.zeros(len(self._names), np.float32)
        if came is not None:
            twist = came[0].twist if self._stamped else came[0]
            linear, angular = twist.linear, twist.angular
            velocity = {"x": linear.x, "y": linear.y, "z": linear.z}
            velocity |= {"roll": angular.x, "pitch": angular.y, "yaw": angular.z}
            velocity |= {"throttle": linear.x, "steering": angular.z}
            wanted = np.array([velocity[name] for name in self._names if name != "gripper"]) / self._full
            if np.isfinite(wanted).all():
                # One that is too fast is shortened without a change of direction.
                action[: len(wanted)] = wanted / max(1.0, float(np.abs(wanted).max()))
        in_control = self._latch(bool(action.any()))
        if "gripper" in self._names:
            action[self._names.index("gripper")] = GRIPPER_CLOSED if self._closed else GRIPPER_OPEN
        return Intervention(action, in_control, message="" if came else self._topic.absence)

    def reset(self, closed: bool = False) -> None:
        """Begin an episode, or follow whoever acts: the gripper is open, or ``closed``."""
        self._closed = closed

    def help(self) -> list[str]:
        """Return what moves the robot, for people."""
        return [f"twists move {', '.join(self._names)}"]

    def close(self) -> None:
        """Leave ROS 2."""
        self._topic.close()


class LeaderTeleop:
    """Drives a robot's joints as those of an arm that a person moves by hand (sensor_msgs/msg/JointState).

    What counts is motion: the robot makes that of the leader since the person took over, from wherever both are, at
    most as fast as its actions allow and what is left afterwards. The gripper follows the leader's position.

    Args:
        spec: of the robot; its action must be ``joint_delta``.
        config: topic, joints, gripper.
        clock: monotonic time.

    Raises:
        ConfigError: if the robot's action is another, or joints and scales are not as many as its own.
    """

    def __init__(self, spec: EnvSpec, config: TeleopConfig, clock: Clock) -> None:
        if spec.action_space != "joint_delta" or "joint_scale" not in spec.extra:
            raise ConfigError(
                f"a leader arm drives joints, but the actions of task {spec.task!r} are {spec.action_space}: choose "
                "task.controller.action_space=joint_delta"
            )
        leader = config.leader
        moved = [name for name in spec.action.names if name != "gripper"]
        self._joints = list(leader.joints) or moved
        scale = leader.scale or (1.0,) * len(moved)
        for key, given in (("joints", self._joints), ("scale", scale)):
            if len(given) != len(moved):
                raise ConfigError(
                    f"teleop.leader.{key} must be one for each of {', '.join(moved)}, got {len(given)} of them"
                )
        self._config, self._clock = leader, clock
        self._scale = np.array(scale, np.float64) / float(spec.extra["joint_scale"])
        self._grips = "gripper" in spec.action.names
        self._latch = Latch(config.latch_seconds, clock)
        self._closure = GRIPPER_OPEN
        self._last: tuple[NDArray[np.float64], int] | None = None
        self._left = np.zeros(len(moved))
        self._message = ""
        self._topic = Topic(open_teleop_node(config), "sensor_msgs/msg/JointState", leader.topic, leader.timeout, clock)

    def read(self) -> Intervention:
        """Return what the person does now. Never blocks."""
        positions, stamp_ns = self._positions()
        moving = False
        if positions is None:
            self._last = None
            self._left[:] = 0
        else:
            if self._last is not None and stamp_ns > self._last[1]:
                moved = positions - self._last[0]
                moving = bool(np.abs(moved).max() > self._config.threshold * (stamp_ns - self._last[1]) * 1e-9)
                self._left += moved * self._scale
            if self._last is None or stamp_ns > self._last[1]:
                self._last = positions, stamp_ns
        in_control = self._latch(moving)
        if not in_control:
            self._left[:] = 0
        action = np.clip(self._left, -1, 1)
        self._left -= action
        if self._grips:
            action = np.append(action, self._closure)
        return Intervention(action.astype(np.float32), in_control, message=self._message)

    def reset(self, closed: bool = False) -> None:
        """Begin an episode, or follow whoever acts: the gripper is open, or ``closed``, where the leader has none."""
        if not self._config.gripper:
            self._closure = GRIPPER_CLOSED if closed else GRIPPER_OPEN

    def help(self) -> list[str]:
        """Return what moves the robot, for people."""
        return [f"the leader's {', '.join(self._joints)} move the robot"]

    def close(self) -> None:
        """Leave ROS 2."""
        self._topic.close()

    def _positions(self) -> tuple[NDArray[np.float64] | None, int]:
        """Return the leader's joint positions (n,) [rad or m] and when they came [ns]; None where nothing is known.

        Its gripper is taken note of on the way.
        """
        came = self._topic.newest()
        if came is None:
            self._message = self._topic.absence
            return None, 0
        message, stamp_ns = came
        found = dict(zip(message.name, message.position, strict=False))
        wanted = [*self._joints, *filter(None, [self._config.gripper])]
        missing = [name for name in wanted if not np.isfinite(found.get(name, np.nan))]
        if missing:
            self._message = f"the leader arm gives no position of {', '.join(missing)}, but of {', '.join(found)}"
            return None, 0
        self._message = ""
        if self._config.gripper:
            config = self._config
            closed = (found[config.gripper] - config.open) / (config.closed - config.open)
            self._closure = float(np.clip(2 * closed - 1, GRIPPER_OPEN, GRIPPER_CLOSED))
        return np.array([found[name] for name in self._joints], np.float64), stamp_ns


def _full_speed(spec: EnvSpec, name: str, config: TeleopConfig) -> float:
    """Return the velocity of a full action [m/s or rad/s]."""
    if name == "throttle":
        return config.twist.speed
    if name == "steering":
        return config.twist.turn
    scale = spec.extra.get("rotation_scale" if name in ROTATIONS else "translation_scale")
    if spec.action_space != "end_effector_delta" or not isinstance(scale, float | int):
        raise ConfigError(
            f"twists drive velocities, but the actions of task {spec.task!r} are {spec.action_space} without a scale: "
            "choose task.controller.action_space=end_effector_delta"
        )
    return float(scale) * spec.control_rate

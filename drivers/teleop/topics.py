"""Devices of other machines over ROS 2: Joy and Twist."""

from collections.abc import Callable

import numpy as np

from robo_rl.core import Clock, ConfigError, EnvSpec, Intervention

from ..ros2 import Message, Node, QoSProfile, open_node
from .config import JoyConfig, TeleopConfig
from .keys import GRIPPER_CLOSED, GRIPPER_OPEN, action_names
from .motion import Buttons, Latch, Polled

NODE_NAME = "robo_rl_teleop"
NEWEST = QoSProfile(depth=1, reliability="best_effort")
EACH = QoSProfile(depth=100, reliability="best_effort")
ROTATIONS = ("roll", "pitch", "yaw")


def open_teleop_node(config: TeleopConfig) -> Node:
    """Open a node for the topics of a device."""
    return open_node(NODE_NAME, config.namespace, config.implementation)


class Topic:
    """Newest message of a topic, unless it is too old.

    Args:
        node: node that is closed together with the topic.
        message_type: message type of the topic.
        name: name of the topic.
        timeout: age above which a message does not count, by monotonic time since its arrival [s].
        clock: monotonic clock.
        callback: called with each message in the node's thread; None: only the newest message is kept.
    """

    def __init__(
        self,
        node: Node,
        message_type: str,
        name: str,
        timeout: float,
        clock: Clock,
        callback: Callable[[Message], None] | None = None,
    ) -> None:
        self._node, self._clock, self._timeout_ns = node, clock, round(timeout * 1e9)
        self._subscription = node.create_subscription(message_type, name, callback, EACH if callback else NEWEST)
        self._description = f"{message_type} on {self._subscription.topic}"

    @property
    def absence(self) -> str:
        """Text for the person while there is no message."""
        problem = next(
            (mismatch.text for mismatch in self._node.problems if mismatch.topic == self._subscription.topic), None
        )
        return problem or f"no {self._description}: nothing moves until it is there"

    def newest(self) -> tuple[Message, int] | None:
        """Return the newest message and its arrival time [ns], or None if it is too old."""
        newest = self._subscription.latest()
        return newest if newest is not None and self._clock.now_ns() - newest[1] <= self._timeout_ns else None

    def close(self) -> None:
        """Leave ROS 2."""
        self._node.close()


class JoyReader:
    """Axes and buttons of sensor_msgs/msg/Joy, named by their numbers; see :class:`~.motion.Reader`.

    Args:
        node: node that is closed together with the reader.
        config: topic and time-out.
        clock: monotonic clock.
    """

    def __init__(self, node: Node, config: JoyConfig, clock: Clock) -> None:
        self._buttons = Buttons()
        self._topic = Topic(node, "sensor_msgs/msg/Joy", config.topic, config.timeout, clock, self._receive)

    @property
    def absence(self) -> str:
        """See :class:`~.motion.Reader`."""
        return self._topic.absence

    def poll(self) -> Polled:
        """See :class:`~.motion.Reader`."""
        newest = self._topic.newest()
        if newest is None:
            return self._buttons.look(None)
        message, _ = newest
        return self._buttons.look({str(number): float(value) for number, value in enumerate(message.axes)})

    def close(self) -> None:
        """Leave ROS 2."""
        self._topic.close()

    def _receive(self, message: Message) -> None:
        self._buttons.update({str(number) for number, held in enumerate(message.buttons) if held})


class TwistTeleop:
    """Teleoperation of an end effector or a vehicle by geometry_msgs/msg/Twist or TwistStamped, in the action's frame.

    A twist that is not zero takes control. A twist that is too old counts as zero. The gripper does not move.

    Args:
        spec: spec of the robot.
        config: topic and time-out; speeds of a vehicle.
        clock: monotonic clock.

    Raises:
        ConfigError: if actions move something else, or their velocities are unknown.
    """

    in_base_frame = False

    def __init__(self, spec: EnvSpec, config: TeleopConfig, clock: Clock) -> None:
        self._names, twist = action_names(spec), config.twist
        self._full = np.array([_full_speed(spec, name, config) for name in self._names if name != "gripper"])
        self._latch = Latch(config.latch_seconds, clock)
        self._stamped = twist.stamped
        self._closed = False
        message_type = f"geometry_msgs/msg/Twist{'Stamped' if twist.stamped else ''}"
        self._topic = Topic(open_teleop_node(config), message_type, twist.topic, twist.timeout, clock)

    def read(self) -> Intervention:
        """Return the person's current action. Never blocks."""
        newest = self._topic.newest()
        action = np.zeros(len(self._names), np.float32)
        if newest is not None:
            twist = newest[0].twist if self._stamped else newest[0]
            linear, angular = twist.linear, twist.angular
            velocity = {"x": linear.x, "y": linear.y, "z": linear.z}
            velocity |= {"roll": angular.x, "pitch": angular.y, "yaw": angular.z}
            velocity |= {"throttle": linear.x, "steering": angular.z}
            velocities = np.array([velocity[name] for name in self._names if name != "gripper"]) / self._full
            if np.isfinite(velocities).all():
                # A twist that is too fast is shortened without changing its direction.
                action[: len(velocities)] = velocities / max(1.0, float(np.abs(velocities).max()))
        in_control = self._latch(bool(action.any()))
        if "gripper" in self._names:
            action[self._names.index("gripper")] = GRIPPER_CLOSED if self._closed else GRIPPER_OPEN
        return Intervention(action, in_control, message="" if newest else self._topic.absence)

    def reset(self, closed: bool = False) -> None:
        """Begin an episode or an intervention, with the gripper open or ``closed``."""
        self._closed = closed

    def help(self) -> list[str]:
        """Return the elements of the action that twists move, for display."""
        return [f"twists move {', '.join(self._names)}"]

    def close(self) -> None:
        """Leave ROS 2."""
        self._topic.close()


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

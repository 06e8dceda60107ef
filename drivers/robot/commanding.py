"""From targets to the messages that move a robot."""

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArmPose, ArmTarget, ConfigError, DriverError, EnvSpec

from ..ros2 import Node, QoSProfile
from .config import COMMANDS, CommandConfig, GripperConfig
from .rotation import to_quaternion, to_vector

Array = NDArray[np.float64]

FITTING: dict[str, tuple[str, ...]] = {
    "end_effector_delta": ("pose", "twist"),
    "joint_delta": ("joint_positions", "joint_trajectory"),
    "steering_throttle": ("ackermann", "base_twist", "base_twist_stamped"),
}
FITTING["joint_position"] = FITTING["joint_delta"]
"""Kinds of command that an action space can be sent as."""

COMMAND_QOS = QoSProfile(depth=1)


def check_command(config: CommandConfig, spec: EnvSpec) -> None:
    """Raise :class:`ConfigError` unless actions of ``spec`` can be sent as ``config`` says."""
    fitting = FITTING.get(spec.action_space, ())
    if config.kind not in fitting:
        raise ConfigError(
            f"robot.command.kind={config.kind} cannot carry actions of the space {spec.action_space!r}; it can be sent "
            f"as: {', '.join(fitting) or 'nothing'}. Choose another task.controller.action_space"
        )


class ArmCommander:
    """Publishes what the arm is to pull towards.

    Args:
        node: of the driver.
        config: topic and kind.
        joints: names of the task's joints.
        period: length of a control period in the robot's time [s].
    """

    def __init__(self, node: Node, config: CommandConfig, joints: tuple[str, ...], period: float) -> None:
        self._node, self._config, self._period = node, config, period
        self._joints = list(config.joints or joints)
        self.publisher = node.create_publisher(COMMANDS[config.kind], config.topic, COMMAND_QOS)

    def send(self, target: ArmTarget, pose: ArmPose) -> None:
        """Send a target.

        Args:
            target: what to pull towards.
            pose: measured pose of the end effector, from which a twist leads to the target in one period.
        """
        self.publisher.publish(self._message(target, pose))

    def _message(self, target: ArmTarget, pose: ArmPose) -> Any:
        make, kind = self._node.types.make, self._config.kind
        header = {"stamp": self._node.now(), "frame_id": self._config.frame}
        if kind == "joint_positions":
            return make(COMMANDS[kind], data=target.joints)
        if kind == "joint_trajectory":
            nanoseconds = round(self._period * 1e9)
            arrival = {"sec": nanoseconds // 1_000_000_000, "nanosec": nanoseconds % 1_000_000_000}
            point = {"positions": target.joints, "time_from_start": arrival}
            return make(COMMANDS[kind], joint_names=self._joints, points=[point])  # a stamp of 0: begin at once
        assert target.pose is not None
        if kind == "pose":
            orientation = _fields("xyzw", to_quaternion(target.pose.rotation))
            value = {"position": _fields("xyz", target.pose.position), "orientation": orientation}
            return make(COMMANDS[kind], header=header, pose=value)
        linear = (target.pose.position - pose.position) / self._period
        angular = to_vector(target.pose.rotation @ pose.rotation.T) / self._period
        return make(
            COMMANDS[kind], header=header, twist={"linear": _fields("xyz", linear), "angular": _fields("xyz", angular)}
        )


class BaseCommander:
    """Publishes where a mobile base is to go.

    Args:
        node: of the driver.
        config: topic and kind, speed and turn of a full action.
    """

    def __init__(self, node: Node, config: CommandConfig) -> None:
        self._node, self._config = node, config
        self.publisher = node.create_publisher(COMMANDS[config.kind], config.topic, COMMAND_QOS)

    def send(self, steering: float, throttle: float) -> None:
        """Send ``steering`` (positive to the left) and ``throttle`` (positive forward), both in [-1, 1]."""
        make, kind = self._node.types.make, self._config.kind
        speed, turn = throttle * self._config.speed, steering * self._config.turn
        fields: dict[str, Any] = {"linear": {"x": speed}, "angular": {"z": turn}}
        if kind != "base_twist":
            header = {"stamp": self._node.now(), "frame_id": self._config.frame}
            drive = {"drive": {"speed": speed, "steering_angle": turn}}
            fields = {"header": header, **(drive if kind == "ackermann" else {"twist": fields})}
        self.publisher.publish(make(COMMANDS[kind], **fields))


class GripperCommander:
    """Tells the gripper its opening, whenever that changes.

    Args:
        node: of the driver.
        config: name and kind.
    """

    def __init__(self, node: Node, config: GripperConfig) -> None:
        self._node, self._config = node, config
        self._sent: float | None = None
        self.publisher: Any = None
        self.client: Any = None
        self._wanted: float | None = None
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None
        if config.kind == "positions":
            self.publisher = node.create_publisher("std_msgs/msg/Float64MultiArray", config.name, COMMAND_QOS)
        elif config.kind == "action":
            self.client = node.create_action_client("control_msgs/action/GripperCommand", config.name)

    def reset(self) -> None:
        """Send the next opening in any case."""
        self._sent = None

    def send(self, opening: float) -> None:
        """Move the gripper to ``opening``: 0 closed to 1 open. Does not wait for it."""
        config = self._config
        position = config.closed + opening * (config.open - config.closed)
        if self._sent is not None and abs(position - self._sent) < config.resolution:
            return
        self._sent = position
        if self.publisher is not None:
            data = np.full(config.fingers, position)
            self.publisher.publish(self._node.types.make("std_msgs/msg/Float64MultiArray", data=data))
        elif self.client is not None:
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_goals, name="gripper", daemon=True)
                self._thread.start()
            with self._changed:
                self._wanted = position
                self._changed.notify()

    def close(self) -> None:
        """End the thread that waits for answers."""
        if self._thread is not None:
            with self._changed:
                self._closed = True
                self._changed.notify()
            self._thread.join()

    def _send_goals(self) -> None:
        """Send the newest position as a goal, one after another: an answer takes time that the arm has not."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted is not None or self._closed)
                if self._closed:
                    return
                position, self._wanted = self._wanted, None
            command = {"position": position, "max_effort": self._config.effort}
            try:
                self.client.send_goal(
                    self._node.types.make("control_msgs/action/GripperCommand_Goal", command=command), timeout_s=1.0
                )
            except DriverError as error:
                print(f"the gripper does not take {position:.3f}: {error}", flush=True)


def _fields(names: str, values: Array) -> dict[str, float]:
    return dict(zip(names, values.tolist(), strict=True))

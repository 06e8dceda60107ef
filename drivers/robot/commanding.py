"""Senders of commands to an arm or a mobile base, as messages or as goals of an action."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArmPose, ArmTarget, ConfigError, DriverError, EnvSpec, quaternion_of_matrix, vector_of_matrix

from ..ros2 import ActionClient, GoalStatus, Message, Node, Publisher, QoSProfile
from .config import COMMANDS, CommandConfig
from .goals import GoalSender
from .servo import ServoSwitch

Array = NDArray[np.float64]

FITTING: dict[str, tuple[str, ...]] = {
    "end_effector_delta": ("pose", "twist"),
    "joint_delta": (
        "joint_positions",
        "joint_velocities",
        "joint_efforts",
        "joint_trajectory",
        "joint_trajectory_action",
    ),
    "steering_throttle": ("ackermann", "base_twist", "base_twist_stamped"),
}
FITTING["joint_position"] = FITTING["joint_delta"]
"""Kinds of command that can carry the actions of each action space."""

NUMBERS = {"joint_positions": "joints", "joint_velocities": "velocities", "joint_efforts": "efforts"}
"""Kinds of command with one number per joint, and the attribute of a target that holds the numbers."""

GO_ON = ("joint_velocities", "joint_efforts", "twist")
"""Kinds of command that a controller keeps executing until the next one arrives."""

FAILED = {GoalStatus.ABORTED: "aborted", GoalStatus.CANCELED: "cancelled", GoalStatus.UNKNOWN: "lost"}
"""Final states of a goal that the driver did not request, for example because another client's goal replaced it."""

COMMAND_QOS = QoSProfile(depth=1)
SETTLE_SECONDS = 3.0
"""Longest wait until the robot has received all commands [s]."""


def check_command(config: CommandConfig, spec: EnvSpec) -> None:
    """Raise :class:`ConfigError` unless actions of ``spec`` can be sent as commands of ``config.kind``."""
    kinds = FITTING.get(spec.action_space, ())
    if config.kind not in kinds:
        raise ConfigError(
            f"robot.command.kind={config.kind} cannot carry actions of the space {spec.action_space!r}; it can be sent "
            f"as: {', '.join(kinds) or 'nothing'}. Choose another task.controller.action_space"
        )


def check_listener(publisher: Publisher) -> None:
    """Raise :class:`DriverError` if ``publisher`` has no subscription: the robot would stand still."""
    if publisher.matched_count == 0:
        raise DriverError(f"nobody listens to {publisher.topic} any more")


class ArmCommander:
    """Sender of targets to an arm, as messages or as goals of an action.

    Args:
        node: node of the driver.
        config: topic or action and kind of the commands.
        joints: names of the task's joints.
        period: length of a control period in the robot's time [s].
        unheld: called in another thread with the reason if a goal continues after :meth:`stop`.
    """

    def __init__(
        self,
        node: Node,
        config: CommandConfig,
        joints: tuple[str, ...],
        period: float,
        unheld: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._node, self._config, self._period = node, config, period
        self._joints = list(config.joints or joints)
        self.publisher: Publisher | None = None
        self.client: ActionClient | None = None
        self._servo: ServoSwitch | None = None
        self._goals: GoalSender | None = None
        self._refused = ""
        self._sent_target: ArmTarget | None = None
        self._quaternion = np.array([0.0, 0.0, 0.0, 1.0])  # of the last pose
        if config.kind == "joint_trajectory_action":
            self.client = node.create_action_client(COMMANDS[config.kind], config.topic)
            self._goals = GoalSender(self.client, self._refuse, unheld)
        else:
            self.publisher = node.create_publisher(COMMANDS[config.kind], config.topic, COMMAND_QOS)
            if config.kind == "twist":
                self._servo = ServoSwitch(node, self.publisher.topic)

    def turn_on(self) -> None:
        """Switch MoveIt Servo on if it executes the commands. It must have subscribed to them.

        Raises:
            DriverError: if it refuses or does not answer.
        """
        if self._servo is not None:
            self._servo.turn_on()

    def reset(self) -> None:
        """Begin an episode: clear refused goals."""
        self._refused, self._sent_target = "", None
        if self._goals is not None:
            self._goals.reset()

    def check(self) -> None:
        """Raise :class:`DriverError` if the commands no longer have a subscription."""
        if self.publisher is not None:
            check_listener(self.publisher)

    def settle(self) -> None:
        """Wait until commands have been received and goals answered, at most a few seconds."""
        if self._goals is not None:
            self._goals.settle(SETTLE_SECONDS)
        elif self.publisher is not None:
            self.publisher.wait_for_all_acked(SETTLE_SECONDS)

    def send(self, target: ArmTarget, pose: ArmPose) -> None:
        """Send a target. A trajectory is sent only once, because a repetition would restart it.

        Args:
            target: target of the motion.
            pose: measured pose of the end effector. A twist leads from it to the target in one control period.

        Raises:
            DriverError: if the last goal was refused, aborted or cancelled, or its server has ended.
        """
        is_new, self._sent_target = target is not self._sent_target, target
        if self._goals is not None:
            self._check_goal()
            if is_new:
                self._goals.send(
                    self._node.types.make(f"{COMMANDS[self._config.kind]}_Goal", trajectory=self._path(target))
                )
            return
        if self._config.kind == "joint_trajectory" and not is_new:
            return
        assert self.publisher is not None
        self.publisher.publish(self._message(target, pose))

    def stop(self) -> None:
        """Cancel the goal, or send zeros. Other kinds of command have no stop that works without a measured posture."""
        if self._goals is not None:
            self._goals.cancel()
        elif self._config.kind in GO_ON:
            assert self.publisher is not None
            zeros, pose = np.zeros(len(self._joints)), ArmPose(np.zeros(3), np.eye(3))
            self.publisher.publish(self._message(ArmTarget(pose, velocities=zeros, efforts=zeros), pose))

    def close(self) -> None:
        """End the thread that waits for answers."""
        if self._goals is not None:
            self._goals.close()

    def _check_goal(self) -> None:
        assert self._goals is not None
        ended = self._goals.ended()  # None for a goal that stop() cancelled, as there is no newest goal then
        if ended is not None and ended[0] in FAILED:
            self._refused = f"{FAILED[ended[0]]} with code {ended[1].error_code}: {ended[1].error_string}"
        if self._goals.lost:
            self._refused = self._goals.lost
        if self._refused:
            raise DriverError(f"a goal of {self._config.topic} was not executed: {self._refused}")

    def _refuse(self, reason: str) -> None:
        """Store why a goal was refused; called in the thread of the goals."""
        self._refused = reason

    def _path(self, target: ArmTarget) -> dict[str, Any]:
        """Return the fields of a trajectory with one point that starts at once (a stamp of 0)."""
        nanoseconds = round(self._period * 1e9)
        arrival = {"sec": nanoseconds // 1_000_000_000, "nanosec": nanoseconds % 1_000_000_000}
        return {"joint_names": self._joints, "points": [{"positions": target.joints, "time_from_start": arrival}]}

    def _message(self, target: ArmTarget, pose: ArmPose) -> Any:
        make, kind = self._node.types.make, self._config.kind
        header = {"stamp": self._node.now(), "frame_id": self._config.frame}
        if kind in NUMBERS:
            return make(COMMANDS[kind], data=getattr(target, NUMBERS[kind]))
        if kind == "joint_trajectory":
            return make(COMMANDS[kind], **self._path(target))
        assert target.pose is not None
        if kind == "pose":
            quaternion = quaternion_of_matrix(target.pose.rotation)
            # A rotation has two quaternions. Send the one nearer to the last, because controllers filter and
            # interpolate.
            self._quaternion = np.copysign(1.0, quaternion @ self._quaternion) * quaternion
            orientation = _fields("xyzw", self._quaternion)
            value = {"position": _fields("xyz", target.pose.position), "orientation": orientation}
            return make(COMMANDS[kind], header=header, pose=value)
        linear = (target.pose.position - pose.position) / self._period
        angular = vector_of_matrix(target.pose.rotation @ pose.rotation.T) / self._period
        return make(
            COMMANDS[kind], header=header, twist={"linear": _fields("xyz", linear), "angular": _fields("xyz", angular)}
        )


class BaseCommander:
    """Sender of steering and throttle to a mobile base.

    Args:
        node: node of the driver.
        config: topic and kind of the commands; speed and turn of a full action.
    """

    def __init__(self, node: Node, config: CommandConfig) -> None:
        self._node, self._config = node, config
        self.publisher = node.create_publisher(COMMANDS[config.kind], config.topic, COMMAND_QOS)

    def send(self, steering: float, throttle: float) -> None:
        """Send ``steering`` (positive to the left) and ``throttle`` (positive forward), both in [-1, 1].

        Raises:
            DriverError: if no subscription receives the commands.
        """
        check_listener(self.publisher)
        self.publisher.publish(self._message(steering, throttle))

    def stop(self) -> None:
        """Stop the base."""
        self.publisher.publish(self._message(steering=0.0, throttle=0.0))

    def settle(self) -> None:
        """Wait until commands have been received, at most a few seconds."""
        self.publisher.wait_for_all_acked(SETTLE_SECONDS)

    def _message(self, steering: float, throttle: float) -> Message:
        make, kind = self._node.types.make, self._config.kind
        speed, turn = throttle * self._config.speed, steering * self._config.turn
        fields: dict[str, Any] = {"linear": {"x": speed}, "angular": {"z": turn}}
        if kind != "base_twist":
            header = {"stamp": self._node.now(), "frame_id": self._config.frame}
            drive = {"drive": {"speed": speed, "steering_angle": turn}}
            fields = {"header": header, **(drive if kind == "ackermann" else {"twist": fields})}
        return make(COMMANDS[kind], **fields)


def _fields(names: str, values: Array) -> dict[str, float]:
    return dict(zip(names, values.tolist(), strict=True))

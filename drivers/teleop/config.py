"""Configuration of teleoperation."""

import math
from dataclasses import dataclass, field

from robo_rl.core import MAX_SECONDS, Options, nearest, option, require

ELEMENTS = ("x", "y", "z", "roll", "pitch", "yaw", "steering", "throttle")
"""Elements of actions that an axis of a device may move."""

FUNCTIONS = ("gripper", "deadman", "success", "failure", "discard", "pause", "stop", "emergency_stop")
"""Functions that a button of a device may have."""


@dataclass  # not frozen: OmegaConf makes frozen entries of a dictionary read-only
class AxisConfig(Options, section="teleop.*.axes.*"):
    """An axis of a device.

    Attributes:
        axis: its name (of Joy messages its number); empty: none.
        scale: action of a full deflection, as a fraction of the largest (-1 to 1); negative: the other way round.
    """

    axis: str = ""
    scale: float = option(1.0, low=-1, high=1)


@dataclass(frozen=True)
class MappingConfig(Options, section="teleop.*"):
    """Functions of the axes and buttons of a device.

    Attributes:
        axes: axis by the element of the action that it moves: x (away from the robot's base), y (to its left), z (up),
            roll, pitch, yaw (about them, right-handed); of a vehicle steering (positive to the left) and throttle.
        buttons: button by what it does: ``gripper`` (opens or closes it), ``deadman`` (must be held to have control),
            ``success``, ``failure``, ``discard``, ``pause``, ``stop``, ``emergency_stop``. Empty: none.
        dead_zone: deflection below which an axis is at rest, as a fraction of the full one (0 to 1); beyond it the
            action begins at 0.
    """

    axes: dict[str, AxisConfig] = field(default_factory=dict)
    buttons: dict[str, str] = field(default_factory=dict)
    dead_zone: float = option(0.1, low=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.axes:
            require(name in ELEMENTS, "teleop.*.axes", nearest(name, ELEMENTS), name)
        for name in self.buttons:
            require(name in FUNCTIONS, "teleop.*.buttons", nearest(name, FUNCTIONS), name)


@dataclass(frozen=True)
class JoyConfig(MappingConfig, section="teleop.joy"):
    """A gamepad of another machine: sensor_msgs/msg/Joy. Axes and buttons are called by their numbers.

    Attributes:
        topic: its name.
        timeout: a device that was silent for longer is gone [s].
    """

    topic: str = "joy"
    timeout: float = option(0.5, above=0, high=MAX_SECONDS)


@dataclass(frozen=True)
class BrowserConfig(MappingConfig, section="teleop.browser"):
    """A page in a browser. Axes are called as the elements that they move, buttons as what they do.

    Attributes:
        timeout: a page that was silent for longer is gone [s].
    """

    timeout: float = option(0.3, above=0, high=MAX_SECONDS)


@dataclass(frozen=True)
class TwistConfig(Options, section="teleop.twist"):
    """Velocities of the end effector [m/s, rad/s], or of a vehicle: geometry_msgs/msg/Twist.

    Attributes:
        topic: its name.
        stamped: whether messages are TwistStamped.
        timeout: velocities that are not repeated for longer do not count [s].
        speed: of a vehicle at full throttle [m/s].
        turn: rotation rate of a vehicle at full steering [rad/s].
    """

    topic: str = "cmd_vel"
    stamped: bool = False
    timeout: float = option(0.5, above=0, high=MAX_SECONDS)
    speed: float = option(1.0, above=0)
    turn: float = option(1.0, above=0)


@dataclass(frozen=True)
class LeaderConfig(Options, section="teleop.leader"):
    """A second arm that a person moves by hand: its sensor_msgs/msg/JointState. The robot makes the same motions.

    Attributes:
        topic: its name.
        joints: names in the message, in the order of the task's joints; none: as the task calls them. With ``model``:
            names there and in the message.
        scale: motion of the robot's joints for one of the leader's (negative: the other way round), each; none: 1.
            Where actions are of joints.
        model: path of an MJCF file of the leader, whose end effector the robot's follows where actions are of an end
            effector; null: the leader is built as the task's arm.
        end_effector: name of the site of ``model`` that is the leader's end effector.
        translation: how far the robot's end effector goes for one metre of the leader's.
        gripper: name of the joint that is the gripper; empty: none.
        closed: position of that joint that closes the robot's gripper [m or rad].
        open: position that opens it.
        threshold: joints that turn slower are at rest [rad/s].
        timeout: an arm that was silent for longer is gone [s].
    """

    topic: str = "leader/joint_states"
    joints: tuple[str, ...] = ()
    scale: tuple[float, ...] = ()
    model: str | None = None
    end_effector: str = "end_effector"
    translation: float = option(1.0, above=0)
    gripper: str = ""
    closed: float = 0.0
    open: float = 0.04
    threshold: float = option(0.1, low=0)
    timeout: float = option(0.5, above=0, high=MAX_SECONDS)

    def __post_init__(self) -> None:
        super().__post_init__()
        apart = 0 < abs(self.open - self.closed) < math.inf
        require(apart, "teleop.leader.open", f"a number unlike closed={self.closed}", self.open)


def _axes(**axes: str) -> dict[str, AxisConfig]:
    """Return axes by name; a minus before one turns it round."""
    return {name: AxisConfig(axis.lstrip("-"), -1.0 if axis.startswith("-") else 1.0) for name, axis in axes.items()}


def _gamepad() -> MappingConfig:
    """Return the mapping of a gamepad: SDL's names, of which up and left are negative."""
    return MappingConfig(
        axes=_axes(x="-left_y", y="-left_x", z="-right_y", yaw="-right_x", throttle="-left_y", steering="-right_x"),
        buttons={
            "gripper": "right_shoulder",
            "deadman": "",
            "success": "a",
            "failure": "b",
            "discard": "x",
            "pause": "start",
            "stop": "back",
            "emergency_stop": "y",
        },
    )


def _spacemouse() -> MappingConfig:
    """Return the mapping of a SpaceMouse, whose frame is the robot's; buttons by number, the left one first."""
    return MappingConfig(
        axes=_axes(x="x", y="y", z="z", roll="roll", pitch="pitch", yaw="yaw", throttle="x", steering="yaw"),
        buttons={"gripper": "0", "success": "1"},
    )


def _joy() -> JoyConfig:
    """Return the mapping of a gamepad as ROS 2's joy_node numbers it on Linux; up and left are positive."""
    return JoyConfig(
        axes=_axes(x="1", y="0", z="4", yaw="3", throttle="1", steering="3"),
        buttons={
            "gripper": "5",
            "deadman": "",
            "success": "0",
            "failure": "1",
            "discard": "2",
            "pause": "7",
            "stop": "6",
            "emergency_stop": "3",
        },
    )


def _browser() -> BrowserConfig:
    """Return the mapping of the page: all that it has."""
    return BrowserConfig(axes=_axes(**{name: name for name in ELEMENTS}), buttons={name: name for name in FUNCTIONS})


@dataclass(frozen=True)
class TeleopConfig(Options, section="teleop"):
    """Mapping from a person's motions to the robot's.

    A terminal tells that a key went down and, while it is held, repeats it after a while; it never tells that it was
    let go. So each key acts for ``hold_seconds`` and then fades over ``decay_seconds``, which bridges the wait for the
    first repetition. A window knows when a key is let go and needs neither.

    Attributes:
        device: what the person holds; null: nothing, so that nobody takes over.
        screen: where devices without a screen show the robot, and what keys of it are buttons too: ``keyboard`` (this
            terminal) or ``window``; null: nowhere.
        speed: action of a key that is held, as a fraction of the largest (0 to 1).
        hold_seconds: how long a key in a terminal acts in full [s].
        decay_seconds: how long it fades after that [s].
        latch_seconds: how long the person stays in control after the last motion [s].
        namespace: of the topics.
        implementation: of ROS 2: ``auto``, ``rclpy`` or ``dds``.
        gamepad: axes left_x, left_y, right_x, right_y, left_trigger, right_trigger; buttons a, b, x, y, back, guide,
            start, left_stick, right_stick, left_shoulder, right_shoulder, up, down, left, right.
        spacemouse: axes x, y, z, roll, pitch, yaw; buttons by number.
        browser: a page in a browser, served as ``web`` says.
        joy: a gamepad over ROS 2.
        twist: velocities over ROS 2.
        leader: a leader arm over ROS 2.
    """

    device: str | None = None
    screen: str | None = "keyboard"
    speed: float = option(1.0, above=0, high=1)
    hold_seconds: float = option(0.15, low=0, high=MAX_SECONDS)
    decay_seconds: float = option(0.35, low=0, high=MAX_SECONDS)
    latch_seconds: float = option(0.5, low=0, high=MAX_SECONDS)
    namespace: str = ""
    implementation: str = "auto"
    gamepad: MappingConfig = field(default_factory=_gamepad)
    spacemouse: MappingConfig = field(default_factory=_spacemouse)
    browser: BrowserConfig = field(default_factory=_browser)
    joy: JoyConfig = field(default_factory=_joy)
    twist: TwistConfig = field(default_factory=TwistConfig)
    leader: LeaderConfig = field(default_factory=LeaderConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.screen in (None, "keyboard", "window"), "teleop.screen", "keyboard, window or null", self.screen)
        implementations = ("auto", "rclpy", "dds")
        require(
            self.implementation in implementations,
            "teleop.implementation",
            nearest(self.implementation, implementations),
            self.implementation,
        )


@dataclass(frozen=True)
class SteeringConfig:
    """A node beside what acts: ``ros2 service call /robo_rl/pause std_srvs/srv/Trigger``.

    Attributes:
        name: of the node, and of its services ``NAME/start``, ``pause``, ``reset``, ``mark_success``, ``mark_failure``
            and ``emergency_stop``.
        namespace: of the services, and of ``diagnostics``.
        implementation: of ROS 2: ``auto``, ``rclpy`` or ``dds``.
    """

    name: str = "robo_rl"
    namespace: str = ""
    implementation: str = "auto"

    def __post_init__(self) -> None:
        implementations = ("auto", "rclpy", "dds")
        require(
            self.implementation in implementations,
            "steering.implementation",
            nearest(self.implementation, implementations),
            self.implementation,
        )

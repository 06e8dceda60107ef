"""Configuration of teleoperation."""

import math
from dataclasses import dataclass, field

from robo_rl.core import MAX_SECONDS, Options, nearest, option, require

DEVICES = ("keyboard", "window", "browser", "gamepad", "spacemouse", "joy", "twist", "leader")
ELEMENTS = ("x", "y", "z", "roll", "pitch", "yaw", "steering", "throttle")
"""Elements of actions that an axis of a device may move."""

FUNCTIONS = ("gripper", "deadman", "success", "failure", "discard", "pause", "stop", "emergency_stop")
"""Functions that a button of a device may have."""


@dataclass  # not frozen: OmegaConf makes frozen entries of a dictionary read-only
class AxisConfig(Options, section="teleop.*.axes.*"):
    """Axis of a device.

    Attributes:
        axis: name of the axis (for Joy messages, its number); empty: none.
        scale: action at full deflection, as a fraction of the largest (-1 to 1); negative: reversed.
    """

    axis: str = ""
    scale: float = option(1.0, low=-1, high=1)


@dataclass(frozen=True)
class MappingConfig(Options, section="teleop.*"):
    """Functions of the axes and buttons of a device.

    Attributes:
        axes: axis for each element of the action: x (away from the robot's base), y (to its left), z (up), roll, pitch,
            yaw (about these, right-handed); for a vehicle steering (positive to the left) and throttle.
        buttons: button for each function: ``gripper`` (opens or closes it), ``deadman`` (must be held to have control),
            ``success``, ``failure``, ``discard``, ``pause``, ``stop``, ``emergency_stop``. Empty: none.
        dead_zone: deflection below which an axis is at rest, as a fraction of full deflection (0 to 1); beyond it the
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
    """Gamepad of another machine: sensor_msgs/msg/Joy. Axes and buttons are named by their numbers.

    Attributes:
        topic: name of the topic.
        timeout: time of silence after which the device counts as disconnected [s].
    """

    topic: str = "joy"
    timeout: float = option(0.5, above=0, high=MAX_SECONDS)


@dataclass(frozen=True)
class BrowserConfig(MappingConfig, section="teleop.browser"):
    """Page in a browser. Axes have the names of the elements that they move, buttons those of their functions.

    Attributes:
        timeout: time of silence after which a page counts as disconnected [s].
    """

    timeout: float = option(0.3, above=0, high=MAX_SECONDS)


@dataclass(frozen=True)
class TwistConfig(Options, section="teleop.twist"):
    """Velocities of the end effector [m/s, rad/s], or of a vehicle: geometry_msgs/msg/Twist.

    Attributes:
        topic: name of the topic.
        stamped: whether messages are TwistStamped.
        timeout: time after which velocities that are not repeated do not count any more [s].
        speed: speed of a vehicle at full throttle [m/s].
        turn: rotation rate of a vehicle at full steering [rad/s].
    """

    topic: str = "cmd_vel"
    stamped: bool = False
    timeout: float = option(0.5, above=0, high=MAX_SECONDS)
    speed: float = option(1.0, above=0)
    turn: float = option(1.0, above=0)


@dataclass(frozen=True)
class LeaderConfig(Options, section="teleop.leader"):
    """Second arm that a person moves by hand: sensor_msgs/msg/JointState. The robot makes the same motions.

    Attributes:
        topic: name of the topic.
        joints: names in the message, in the order of the task's joints; none: the task's names. With ``model``: names
            in the model and in the message.
        scale: motion of each of the robot's joints per motion of the leader's (negative: reversed), if actions move
            joints; none: 1.
        model: path of an MJCF file of the leader, whose end effector the robot's follows, if actions move an end
            effector; null: the leader is built like the task's arm.
        end_effector: name of the site of ``model`` at the leader's end effector.
        translation: distance that the robot's end effector moves per metre of the leader's.
        gripper: name of the gripper's joint; empty: none.
        closed: position of that joint that closes the robot's gripper [m or rad].
        open: position that opens it.
        threshold: joint velocity below which joints count as at rest [rad/s].
        timeout: time of silence after which the arm counts as disconnected [s].
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
        is_distinct = len(set(self.joints)) == len(self.joints)
        require(is_distinct, "teleop.leader.joints", "different names", list(self.joints))


def _axes(**axes: str) -> dict[str, AxisConfig]:
    """Return axes by name; a leading minus reverses an axis."""
    return {name: AxisConfig(axis.lstrip("-"), -1.0 if axis.startswith("-") else 1.0) for name, axis in axes.items()}


def _buttons(*buttons: str) -> dict[str, str]:
    """Return the buttons of all functions, in the order of :data:`FUNCTIONS`."""
    return dict(zip(FUNCTIONS, buttons, strict=True))


def _gamepad() -> MappingConfig:
    """Return the mapping of a gamepad with SDL's names. Up and left are negative."""
    return MappingConfig(
        axes=_axes(x="-left_y", y="-left_x", z="-right_y", yaw="-right_x", throttle="-left_y", steering="-right_x"),
        buttons=_buttons("right_shoulder", "", "a", "b", "x", "start", "back", "y"),
    )


def _spacemouse() -> MappingConfig:
    """Return the mapping of a SpaceMouse, whose frame is the robot's. Buttons are numbered from the left."""
    return MappingConfig(
        axes=_axes(x="x", y="y", z="z", roll="roll", pitch="pitch", yaw="yaw", throttle="x", steering="yaw"),
        buttons={"gripper": "0", "success": "1"},
    )


def _joy() -> JoyConfig:
    """Return the mapping of a gamepad as ROS 2's joy_node numbers it on Linux; up and left are positive."""
    return JoyConfig(
        axes=_axes(x="1", y="0", z="4", yaw="3", throttle="1", steering="3"),
        buttons=_buttons("5", "", "0", "1", "2", "7", "6", "3"),
    )


def _browser() -> BrowserConfig:
    """Return the mapping of the page with all its axes and buttons."""
    return BrowserConfig(axes=_axes(**{name: name for name in ELEMENTS}), buttons=_buttons(*FUNCTIONS))


@dataclass(frozen=True)
class TeleopConfig(Options, section="teleop"):
    """Mapping from a person's motions to the robot's.

    A terminal reports when a key goes down and, while it is held, repeats it after a while; it never reports the
    release. Each key therefore acts for ``hold_seconds`` and then fades over ``decay_seconds``, which bridges the wait
    for the first repetition. A window reports when a key is released and needs neither.

    Attributes:
        device: device of the person; null: none, so that no person intervenes.
        screen: where the robot is displayed for devices without a screen: ``keyboard`` (this terminal) or ``window``,
            whose keys then act as buttons too; null: nowhere.
        speed: action while a key is held, as a fraction of the largest (0 to 1).
        hold_seconds: time for which a key in a terminal acts in full [s].
        decay_seconds: time over which it then fades [s].
        latch_seconds: time for which the person stays in control after the last motion [s].
        namespace: namespace of the topics.
        implementation: implementation of ROS 2: ``auto``, ``rclpy`` or ``dds``.
        gamepad: axes left_x, left_y, right_x, right_y, left_trigger, right_trigger; buttons a, b, x, y, back, guide,
            start, left_stick, right_stick, left_shoulder, right_shoulder, up, down, left, right.
        spacemouse: axes x, y, z, roll, pitch, yaw; buttons by number.
        browser: page in a browser, served at the address of ``web``.
        joy: gamepad over ROS 2.
        twist: velocities over ROS 2.
        leader: leader arm over ROS 2.
    """

    device: str | None = None
    screen: str | None = option("keyboard", choices=("keyboard", "window"))
    speed: float = option(1.0, above=0, high=1)
    hold_seconds: float = option(0.15, low=0, high=MAX_SECONDS)
    decay_seconds: float = option(0.35, low=0, high=MAX_SECONDS)
    latch_seconds: float = option(0.5, low=0, high=MAX_SECONDS)
    namespace: str = ""
    implementation: str = option("auto", choices=("auto", "rclpy", "dds"))
    gamepad: MappingConfig = field(default_factory=_gamepad)
    spacemouse: MappingConfig = field(default_factory=_spacemouse)
    browser: BrowserConfig = field(default_factory=_browser)
    joy: JoyConfig = field(default_factory=_joy)
    twist: TwistConfig = field(default_factory=TwistConfig)
    leader: LeaderConfig = field(default_factory=LeaderConfig)


@dataclass(frozen=True)
class SteeringConfig(Options, section="steering"):
    """Node of remote buttons and diagnostics: ``ros2 service call /robo_rl/pause std_srvs/srv/Trigger``.

    Attributes:
        name: name of the node, and of its services ``NAME/start``, ``pause``, ``reset``, ``mark_success``,
            ``mark_failure`` and ``emergency_stop``.
        namespace: namespace of the services, and of ``diagnostics``.
        implementation: implementation of ROS 2: ``auto``, ``rclpy`` or ``dds``.
    """

    name: str = "robo_rl"
    namespace: str = ""
    implementation: str = option("auto", choices=("auto", "rclpy", "dds"))

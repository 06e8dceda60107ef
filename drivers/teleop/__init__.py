"""Teleoperation: devices by which a person drives a robot."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore

from robo_rl.core import (
    Clock,
    ConfigError,
    DriverError,
    EnvSpec,
    MonotonicClock,
    RobotDescription,
    config_node,
    nearest,
    require,
)

from .config import SteeringConfig, TeleopConfig
from .keyboard import KeyboardTeleop
from .screens import Screenless, ScreenTeleop
from .window import WindowTeleop

if TYPE_CHECKING:
    from .browser import Page
    from .steering import SteeringNode

DEVICES = ("keyboard", "window", "browser", "gamepad", "spacemouse", "joy", "twist", "leader")

__all__ = [
    "DEVICES",
    "KeyboardTeleop",
    "ScreenTeleop",
    "SteeringConfig",
    "TeleopConfig",
    "WindowTeleop",
    "find_devices",
    "make_steering",
    "make_teleop",
    "register_configs",
]


def make_teleop(
    device: str,
    spec: EnvSpec,
    clock: Clock | None = None,
    page: "Page | None" = None,
    robot: RobotDescription | None = None,
    **fields: Any,
) -> KeyboardTeleop | WindowTeleop | ScreenTeleop | Screenless:
    """Open a teleoperation device.

    Args:
        device: ``keyboard`` (in this terminal), ``window`` (a window of its own), ``browser``, ``gamepad``,
            ``spacemouse``; over ROS 2 ``joy``, ``twist``, ``leader``.
        spec: of the robot that is driven.
        clock: monotonic time.
        page: that is served for ``browser``.
        robot: that is driven; ``leader`` may need its kinematics.
        fields: of :class:`TeleopConfig`.

    Raises:
        ConfigError: if there is no such device, it lacks a package, or cannot drive the actions of ``spec``.
        DriverError: if the device is not there, or there is no terminal or no display.
    """
    if device not in DEVICES:
        raise ConfigError(f"unknown teleoperation device {device!r}: {nearest(device, DEVICES)}")
    config, clock = TeleopConfig(device=device, **fields), clock or MonotonicClock()
    if device == "browser":
        from .browser import BrowserTeleop

        require(page is not None, "page", "one that is served, for teleop.device=browser", page)
        assert page is not None
        return BrowserTeleop(page, spec, config, clock)
    if device in _SCREENS:
        return _SCREENS[device](spec, config, clock=clock)
    opened = _open(device, spec, config, clock, robot)
    if config.screen is None:
        return opened
    try:
        return ScreenTeleop(opened, _SCREENS[config.screen](spec, config, clock=clock, moves=False))
    except BaseException:
        opened.close()
        raise


_SCREENS: dict[str, Callable[..., KeyboardTeleop | WindowTeleop]] = {"keyboard": KeyboardTeleop, "window": WindowTeleop}


def _open(device: str, spec: EnvSpec, config: TeleopConfig, clock: Clock, robot: RobotDescription | None) -> Screenless:
    """Open a device without a screen. What it needs is imported here, so that nothing else needs it."""
    from . import gamepad, spacemouse
    from .motion import AxisMotion, AxisTeleop

    if device == "gamepad":
        motion = AxisMotion(spec, config.gamepad, config.latch_seconds, clock, gamepad.AXES, gamepad.BUTTONS)
        return AxisTeleop(gamepad.GamepadReader(), motion)
    if device == "spacemouse":
        motion = AxisMotion(spec, config.spacemouse, config.latch_seconds, clock, spacemouse.AXES)
        return AxisTeleop(spacemouse.SpaceMouseReader(clock), motion)
    from . import topics

    if device == "joy":
        motion = AxisMotion(spec, config.joy, config.latch_seconds, clock)
        return AxisTeleop(topics.JoyReader(topics.open_teleop_node(config), config.joy, clock), motion)
    if device == "twist":
        return topics.TwistTeleop(spec, config, clock)
    from .leader import LeaderTeleop

    return LeaderTeleop(spec, config, clock, robot)


def find_devices() -> tuple[list[str], list[str]]:
    """Return the gamepads and 3D mice that are plugged in, and why some could not be looked for."""
    from .gamepad import find_gamepads
    from .spacemouse import find_spacemice

    found: list[str] = []
    reasons: list[str] = []
    for kind, find in (("gamepad", find_gamepads), ("SpaceMouse", find_spacemice)):
        try:
            found += [f"{kind} ({name})" for name in find()]
        except (ConfigError, DriverError) as error:
            reasons.append(str(error))
    return found, reasons


def make_steering(emergency_stop: Callable[[], str] | None = None, marks: bool = True, **fields: Any) -> "SteeringNode":
    """Open a node with services that press the buttons of a training or recording.

    Args:
        emergency_stop: pressed at once by its service; returns why robots are not stopped, nothing where they are.
            None: there is none that is latched.
        marks: whether there are episodes to be reset and marked, and a robot that moves.
        fields: of :class:`SteeringConfig`.

    Raises:
        DriverError: if there is no ROS 2.
    """
    from .steering import SteeringNode

    return SteeringNode(SteeringConfig(**fields), emergency_stop, marks=marks)


def register_configs() -> None:
    """Offer the configuration of teleoperation (group ``teleop``) and steering (group ``steering``) to Hydra."""
    store = ConfigStore.instance()
    store.store(group="teleop", name="default", node=config_node(make_teleop, TeleopConfig))
    store.store(group="steering", name="ros2", node=config_node(make_steering, SteeringConfig))

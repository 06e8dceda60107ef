"""Functions that open teleoperation devices and steering from the fields of their configuration."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from robo_rl.core import (
    Clock,
    ConfigError,
    DriverError,
    EnvSpec,
    MonotonicClock,
    RobotDescription,
    nearest,
    require,
)

from .config import DEVICES, SteeringConfig, TeleopConfig
from .keyboard import KeyboardTeleop
from .screens import Screenless, ScreenTeleop
from .window import WindowTeleop

if TYPE_CHECKING:
    from .browser import Page
    from .steering import SteeringNode


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
        device: ``keyboard`` (in this terminal), ``window`` (in a separate window), ``browser``, ``gamepad`` or
            ``spacemouse``; over ROS 2 ``joy``, ``twist`` or ``leader``.
        spec: spec of the robot to drive.
        clock: monotonic clock.
        page: the served page, for ``browser``.
        robot: description of the robot to drive; ``leader`` may need its kinematics.
        fields: fields of :class:`TeleopConfig`.

    Raises:
        ConfigError: if the device does not exist, lacks a package, or cannot drive the actions of ``spec``.
        DriverError: if the device is not connected, or if there is no terminal or display.
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
    """Open a device without a screen. Devices are imported on demand, so that each needs only its own packages."""
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
    """Return the connected gamepads and 3D mice, and the reasons why some could not be searched for."""
    from .gamepad import find_gamepads
    from .spacemouse import find_spacemice

    names: list[str] = []
    reasons: list[str] = []
    for kind, find in (("gamepad", find_gamepads), ("SpaceMouse", find_spacemice)):
        try:
            names += [f"{kind} ({name})" for name in find()]
        except (ConfigError, DriverError) as error:
            reasons.append(str(error))
    return names, reasons


def make_steering(emergency_stop: Callable[[], str] | None = None, marks: bool = True, **fields: Any) -> "SteeringNode":
    """Open a node with services for the buttons of a training or recording.

    Args:
        emergency_stop: called at once by its service; returns why robots are not stopped, or an empty text if they are.
            None: there is no latched emergency stop.
        marks: whether there are episodes to reset and mark, and a robot that moves.
        fields: fields of :class:`SteeringConfig`.

    Raises:
        DriverError: if ROS 2 is not available.
    """
    from .steering import SteeringNode

    return SteeringNode(SteeringConfig(**fields), emergency_stop, marks=marks)

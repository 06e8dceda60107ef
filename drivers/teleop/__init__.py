"""Teleoperation: devices by which a person drives a robot."""

from typing import Any

from hydra.core.config_store import ConfigStore

from robo_rl.core import ConfigError, EnvSpec, config_node, nearest

from .config import TeleopConfig
from .keyboard import KeyboardTeleop
from .window import WindowTeleop

DEVICES = ("keyboard", "window")

__all__ = ["DEVICES", "KeyboardTeleop", "TeleopConfig", "WindowTeleop", "make_teleop", "register_configs"]


def make_teleop(device: str, spec: EnvSpec, **fields: Any) -> KeyboardTeleop | WindowTeleop:
    """Open a teleoperation device.

    Args:
        device: ``keyboard`` (in this terminal) or ``window`` (a window of its own).
        spec: of the robot that is driven.
        fields: of :class:`TeleopConfig`.

    Raises:
        ConfigError: if there is no such device, it lacks a package, or cannot drive the actions of ``spec``.
        DriverError: if there is no terminal or no display.
    """
    if device not in DEVICES:
        raise ConfigError(f"unknown teleoperation device {device!r}: {nearest(device, DEVICES)}")
    config = TeleopConfig(**fields)
    return KeyboardTeleop(spec, config) if device == "keyboard" else WindowTeleop(spec, config)


def register_configs() -> None:
    """Offer the configuration of teleoperation to Hydra (group ``teleop``)."""
    ConfigStore.instance().store(group="teleop", name="default", node=config_node(make_teleop, TeleopConfig))

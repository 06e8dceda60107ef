"""Teleoperation: devices with which a person drives a robot."""

from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node
from robo_rl.core.lazy import imported_on_use

from .config import SteeringConfig, TeleopConfig

if TYPE_CHECKING:
    from .making import find_devices, make_steering, make_teleop
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["TeleopConfig", "find_devices", "make_steering", "make_teleop", "register_configs"]


def register_configs() -> None:
    """Store the configurations of teleoperation (group ``teleop``) and steering (group ``steering``)."""
    store = ConfigStore.instance()
    store.store(group="teleop", name="default", node=config_node("robo_rl.drivers.teleop.make_teleop", TeleopConfig))
    store.store(group="steering", name="ros2", node=config_node("robo_rl.drivers.teleop.make_steering", SteeringConfig))

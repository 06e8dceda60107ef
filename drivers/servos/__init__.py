"""Arms of servos on a serial bus as environments, without ROS."""

from typing import TYPE_CHECKING, Any

from .config import ServoArmConfig

if TYPE_CHECKING:
    from robo_rl.core import EnvBackend

    from .backend import ServoBackend
    from .virtual_arm import VirtualServoArm

__all__ = ["ServoArmConfig", "make_servo_arm", "register_configs"]


def make_servo_arm(simulation: "EnvBackend", serve: bool = False, **fields: Any) -> "ServoBackend | VirtualServoArm":
    """Return a backend that drives an arm of servos and connects to it when the first episode begins.

    Args:
        simulation: the task's simulated arm, which defines observations and the meaning of actions.
        serve: return instead the simulated arm behind a virtual servo bus, for other programs to drive.
        fields: fields of :class:`ServoArmConfig`.

    Raises:
        ConfigError: if the arm does not provide what the task observes, or is another one than the task's.
    """
    from .backend import ServoBackend
    from .simulated import serve_arm

    if serve:
        return serve_arm(ServoArmConfig(**fields), simulation)
    return ServoBackend(ServoArmConfig(**fields), simulation)


def register_configs() -> None:
    """Store ``servo_arm_schema`` in the group ``robot``."""
    from hydra.core.config_store import ConfigStore

    from robo_rl.core import config_node

    node = config_node(make_servo_arm, ServoArmConfig)
    ConfigStore.instance().store(group="robot", name="servo_arm_schema", node=node)

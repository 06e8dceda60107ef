"""Robots over ROS 2 as environments, described by configuration alone."""

from typing import TYPE_CHECKING, Any

from .config import RobotConfig

if TYPE_CHECKING:
    from robo_rl.core import EnvBackend

    from .backend import RobotBackend

__all__ = ["RobotConfig", "make_robot", "register_configs"]


def make_robot(simulation: "EnvBackend", **fields: Any) -> "RobotBackend":
    """Return a backend that drives a robot and connects to it when the first episode begins.

    Args:
        simulation: the task's simulated arm or car, which defines observations and the meaning of actions.
        fields: fields of :class:`RobotConfig`.

    Raises:
        ConfigError: if the robot does not provide what the task observes, or cannot execute its actions.
    """
    from .backend import RobotBackend  # imports ROS 2, which is slow

    return RobotBackend(RobotConfig(**fields), simulation)


def register_configs() -> None:
    """Store ``robot_schema`` in the group ``robot``; the files in configs/robot derive from it."""
    from hydra.core.config_store import ConfigStore

    from robo_rl.core import config_node

    ConfigStore.instance().store(group="robot", name="robot_schema", node=config_node(make_robot, RobotConfig))

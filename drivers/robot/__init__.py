"""Robots over ROS 2 as environments, described by configuration alone."""

from typing import TYPE_CHECKING, Any

from .config import RobotConfig

if TYPE_CHECKING:
    from robo_rl.core import EnvBackend

    from .backend import RobotBackend

__all__ = ["RobotConfig", "make_robot", "register_configs"]


def make_robot(simulation: "EnvBackend", **fields: Any) -> "RobotBackend":
    """Return a robot as a backend; it is connected to when the first episode begins.

    Args:
        simulation: the task's simulated arm or car, which says what is observed and what actions mean.
        fields: of :class:`RobotConfig`.

    Raises:
        ConfigError: if the robot does not give what the task observes, or cannot take its actions.
    """
    from .backend import RobotBackend  # ROS 2 comes with it

    return RobotBackend(RobotConfig(**fields), simulation)


def register_configs() -> None:
    """Offer ``robot_schema`` in the group ``robot``; the files of configs/robot are made from it."""
    from hydra.core.config_store import ConfigStore

    from robo_rl.core import config_node

    ConfigStore.instance().store(group="robot", name="robot_schema", node=config_node(make_robot, RobotConfig))

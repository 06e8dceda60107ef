"""Simulated arm as a robot over ROS 2, in a separate process."""

from typing import TYPE_CHECKING, Any

from .config import VirtualRobotConfig

if TYPE_CHECKING:
    from .robot import VirtualRobot

__all__ = ["VirtualRobotConfig", "make_virtual_robot", "register_configs"]


def make_virtual_robot(arm: Any, **fields: Any) -> "VirtualRobot":
    """Return a virtual robot.

    Args:
        arm: simulated robot, such as :class:`robo_rl.sim.simulated_robot.SimulatedRobot`.
        fields: fields of :class:`VirtualRobotConfig`.
    """
    from .robot import VirtualRobot  # imports ROS 2, which is slow

    return VirtualRobot(VirtualRobotConfig(**fields), arm)


def register_configs() -> None:
    """Store ``virtual_schema``, the section ``virtual`` of configs/robot.yaml."""
    from hydra.core.config_store import ConfigStore
    from omegaconf import OmegaConf

    from robo_rl.core import config_node

    node = OmegaConf.create({"virtual": config_node(make_virtual_robot, VirtualRobotConfig)})
    ConfigStore.instance().store(name="virtual_schema", node=node)

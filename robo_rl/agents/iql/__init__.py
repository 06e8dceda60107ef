"""Implicit Q-learning: offline reinforcement learning from a data set."""

from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node
from robo_rl.core.lazy import imported_on_use

from .config import IQLConfig

if TYPE_CHECKING:
    from .agent import IQL, make_iql
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["IQL", "IQLConfig", "make_iql", "register_configs"]


def register_configs() -> None:
    """Register ``iql_schema`` in the group ``agent``."""
    ConfigStore.instance().store(
        group="agent", name="iql_schema", node=config_node("robo_rl.agents.iql.make_iql", IQLConfig)
    )

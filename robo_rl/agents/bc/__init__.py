"""Behaviour cloning: regression of actions on demonstrations."""

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node

from .agent import BC, make_bc
from .config import BCConfig

__all__ = ["BC", "BCConfig", "make_bc", "register_configs"]


def register_configs() -> None:
    """Register ``bc_schema`` in the group ``agent``."""
    ConfigStore.instance().store(
        group="agent", name="bc_schema", node=config_node("robo_rl.agents.bc.make_bc", BCConfig)
    )

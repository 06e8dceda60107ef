"""Soft actor-critic with an ensemble of critics: RLPD, and plain SAC with other hyperparameters."""

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node

from .agent import SAC, make_sac
from .config import SACConfig

__all__ = ["SAC", "SACConfig", "make_sac", "register_configs"]


def register_configs() -> None:
    """Register ``sac_schema`` in the group ``agent``."""
    ConfigStore.instance().store(
        group="agent", name="sac_schema", node=config_node("robo_rl.agents.sac.make_sac", SACConfig)
    )

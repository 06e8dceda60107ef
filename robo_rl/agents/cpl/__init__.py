"""Contrastive preference learning: a policy directly from preferences, without a reward."""

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node

from .agent import CPL, make_cpl
from .config import CPLConfig

__all__ = ["CPL", "CPLConfig", "make_cpl", "register_configs"]


def register_configs() -> None:
    """Register ``cpl_schema`` in the group ``agent``."""
    ConfigStore.instance().store(
        group="agent", name="cpl_schema", node=config_node("robo_rl.agents.cpl.make_cpl", CPLConfig)
    )

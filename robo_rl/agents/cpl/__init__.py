"""Contrastive preference learning: a policy directly from preferences, without a reward."""

from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node
from robo_rl.core.lazy import imported_on_use

from .config import CPLConfig

if TYPE_CHECKING:
    from .agent import CPL, make_cpl
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["CPL", "CPLConfig", "make_cpl", "register_configs"]


def register_configs() -> None:
    """Register ``cpl_schema`` in the group ``agent``."""
    ConfigStore.instance().store(
        group="agent", name="cpl_schema", node=config_node("robo_rl.agents.cpl.make_cpl", CPLConfig)
    )

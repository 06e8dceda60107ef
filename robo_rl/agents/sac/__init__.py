"""Soft actor-critic with an ensemble of critics: RLPD, and plain SAC with other hyperparameters."""

from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node
from robo_rl.core.lazy import imported_on_use

from .config import SACConfig

if TYPE_CHECKING:
    from .agent import SAC, make_sac
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["SAC", "SACConfig", "make_sac", "register_configs"]


def register_configs() -> None:
    """Register ``sac_schema`` in the group ``agent``."""
    ConfigStore.instance().store(
        group="agent", name="sac_schema", node=config_node("robo_rl.agents.sac.make_sac", SACConfig)
    )

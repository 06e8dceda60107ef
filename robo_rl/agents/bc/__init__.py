"""Behaviour cloning: regression of actions on demonstrations."""

from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node
from robo_rl.core.lazy import imported_on_use

from .config import BCConfig

if TYPE_CHECKING:
    from .agent import BC, make_bc
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["BC", "BCConfig", "make_bc", "register_configs"]


def register_configs() -> None:
    """Register ``bc_schema`` in the group ``agent``."""
    ConfigStore.instance().store(
        group="agent", name="bc_schema", node=config_node("robo_rl.agents.bc.make_bc", BCConfig)
    )

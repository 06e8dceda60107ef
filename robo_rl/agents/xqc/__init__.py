"""Soft actor-critic with normalised networks: XQC, CrossQ and SimbaV2, which differ in their configuration only."""

from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node
from robo_rl.core.lazy import imported_on_use

from .config import XQCConfig

if TYPE_CHECKING:
    from .agent import XQC, make_xqc
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["XQC", "XQCConfig", "make_xqc", "register_configs"]


def register_configs() -> None:
    """Register ``xqc_schema`` in the group ``agent``."""
    ConfigStore.instance().store(
        group="agent", name="xqc_schema", node=config_node("robo_rl.agents.xqc.make_xqc", XQCConfig)
    )

"""Soft actor-critic with normalised networks: XQC, CrossQ and SimbaV2, which differ in their configuration only."""

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node

from .agent import XQC, make_xqc
from .config import XQCConfig

__all__ = ["XQC", "XQCConfig", "make_xqc", "register_configs"]


def register_configs() -> None:
    """Register ``xqc_schema`` in the group ``agent``."""
    ConfigStore.instance().store(
        group="agent", name="xqc_schema", node=config_node("robo_rl.agents.xqc.make_xqc", XQCConfig)
    )

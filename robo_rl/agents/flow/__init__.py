"""Behaviour cloning by flow matching: a policy that keeps different strategies of the demonstrators apart."""

from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node
from robo_rl.core.lazy import imported_on_use

from .config import FlowCloningConfig

if TYPE_CHECKING:
    from .agent import FlowCloning, make_flow
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["FlowCloning", "FlowCloningConfig", "make_flow", "register_configs"]


def register_configs() -> None:
    """Register ``flow_schema`` in the group ``agent``."""
    ConfigStore.instance().store(
        group="agent", name="flow_schema", node=config_node("robo_rl.agents.flow.make_flow", FlowCloningConfig)
    )

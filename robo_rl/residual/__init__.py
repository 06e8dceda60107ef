"""Reinforcement learning on top of a frozen base policy: bounded corrections of its actions (residuals)."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

from .config import BaseConfig, ExecutionChanges, ExecutionConfig, Growth, ServerConfig

if TYPE_CHECKING:
    from .agent import ResidualAgent
    from .backend import BASE_ACTION, BASE_POLICY, BaseActionBackend, BaseActions, without_base_actions
    from .base_policy import BasePolicy, FrozenPolicy, KnownActions
    from .execution import ExecutedPolicy
    from .scale import residual_scale
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = [
    "BASE_ACTION",
    "BASE_POLICY",
    "BaseActionBackend",
    "BaseActions",
    "BaseConfig",
    "BasePolicy",
    "ExecutedPolicy",
    "ExecutionChanges",
    "ExecutionConfig",
    "FrozenPolicy",
    "Growth",
    "KnownActions",
    "ResidualAgent",
    "ServerConfig",
    "register_configs",
    "residual_scale",
    "without_base_actions",
]


def register_configs() -> None:
    """Register the section ``execution`` of commands that evaluate a policy."""
    from hydra.core.config_store import ConfigStore  # slow to import, and not needed for the help of a command
    from omegaconf import OmegaConf

    from robo_rl.core import config_node

    node = OmegaConf.create({"execution": config_node(None, ExecutionChanges)})
    ConfigStore.instance().store(name="execution_schema", node=node)

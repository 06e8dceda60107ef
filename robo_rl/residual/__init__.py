"""Reinforcement learning on top of a frozen base policy: bounded corrections of its actions (residuals)."""

from .agent import ResidualAgent, residual_scale
from .backend import BASE_ACTION, BASE_POLICY, BaseActionBackend, BaseActions
from .base_policy import BasePolicy
from .config import BaseConfig

__all__ = [
    "BASE_ACTION",
    "BASE_POLICY",
    "BaseActionBackend",
    "BaseActions",
    "BaseConfig",
    "BasePolicy",
    "ResidualAgent",
    "residual_scale",
]

"""Implicit Q-learning: offline reinforcement learning from a data set."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

from .config import IQLConfig

if TYPE_CHECKING:
    from .agent import IQL, make_iql
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["IQL", "IQLConfig", "make_iql"]

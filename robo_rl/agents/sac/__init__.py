"""Soft actor-critic with an ensemble of critics: RLPD, and plain SAC with other hyperparameters."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

from .config import SACConfig

if TYPE_CHECKING:
    from .agent import SAC, make_sac
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["SAC", "SACConfig", "make_sac"]

"""Diffusion steering: reinforcement learning of the noise from which a frozen flow makes action chunks."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

from .config import DSRLConfig

if TYPE_CHECKING:
    from .agent import DSRL, make_dsrl
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["DSRL", "DSRLConfig", "make_dsrl"]

"""Contrastive preference learning: a policy directly from preferences, without a reward."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

from .config import CPLConfig

if TYPE_CHECKING:
    from .agent import CPL, make_cpl
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["CPL", "CPLConfig", "make_cpl"]

"""Behaviour cloning: regression of actions on demonstrations."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

from .config import BCConfig

if TYPE_CHECKING:
    from .agent import BC, make_bc
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["BC", "BCConfig", "make_bc"]

"""Behaviour cloning by flow matching: a policy that keeps different strategies of the demonstrators apart."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

from .config import FlowCloningConfig

if TYPE_CHECKING:
    from .agent import FlowCloning, make_flow
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["FlowCloning", "FlowCloningConfig", "make_flow"]

"""Soft actor-critic with normalised networks: XQC, CrossQ and SimbaV2, which differ in their configuration only."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

from .config import XQCConfig

if TYPE_CHECKING:
    from .agent import XQC, make_xqc
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["XQC", "XQCConfig", "make_xqc"]

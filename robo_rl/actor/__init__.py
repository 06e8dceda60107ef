"""The actor: takes steps on a backend, turns them into transitions, and keeps these until the learner has them."""

from .actor import ActionChoice, Actor
from .intervention import InterventionConfig, SimulatedIntervention
from .marking import marked
from .orders import ORDERS, ended_by
from .spool import Spool, SpoolFullError
from .view import View, jpeg

__all__ = [
    "ORDERS",
    "ActionChoice",
    "Actor",
    "InterventionConfig",
    "SimulatedIntervention",
    "Spool",
    "SpoolFullError",
    "marked",
    "View",
    "ended_by",
    "jpeg",
]

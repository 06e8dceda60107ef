"""Actor that steps a backend and produces transitions, and the spool that keeps these until the learner has them."""

from .actor import ActionChoice, Actor, EpisodeRefusedError
from .intervention import InterventionConfig, SimulatedIntervention
from .marking import marked
from .spool import Spool, SpoolFullError
from .view import View, jpeg

__all__ = [
    "ActionChoice",
    "Actor",
    "EpisodeRefusedError",
    "InterventionConfig",
    "SimulatedIntervention",
    "Spool",
    "SpoolFullError",
    "View",
    "jpeg",
    "marked",
]

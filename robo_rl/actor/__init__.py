"""Actor that steps a backend and produces transitions, and the spool that keeps these until the learner has them."""

from .actor import ActionChoice, Actor, EpisodeRefusedError
from .human_like import HumanLikeChooser
from .intervention import InterventionConfig, Interventions, SimulatedIntervention
from .marking import marked
from .simulated_operator import SimulatedOperator
from .spool import Spool, SpoolFullError
from .view import View, jpeg

__all__ = [
    "ActionChoice",
    "Actor",
    "EpisodeRefusedError",
    "HumanLikeChooser",
    "InterventionConfig",
    "Interventions",
    "SimulatedIntervention",
    "SimulatedOperator",
    "Spool",
    "SpoolFullError",
    "View",
    "jpeg",
    "marked",
]

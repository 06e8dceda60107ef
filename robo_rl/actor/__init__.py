"""The actor: takes steps on a backend and turns them into transitions."""

from .actor import ActionChoice, Actor
from .intervention import InterventionConfig, SimulatedIntervention

__all__ = ["ActionChoice", "Actor", "InterventionConfig", "SimulatedIntervention"]

"""Replay: memory for online data, episodes on disk, and batches mixed from both."""

from .intake import Intake, IntakeTotals
from .layout import EpisodeArrays, EpisodeRecord
from .ring import ReplayRing
from .sampler import MixedSampler
from .store import EpisodeStore, StoreSummary
from .writer import EpisodeWriter

__all__ = [
    "EpisodeArrays",
    "EpisodeRecord",
    "EpisodeStore",
    "EpisodeWriter",
    "Intake",
    "IntakeTotals",
    "MixedSampler",
    "ReplayRing",
    "StoreSummary",
]

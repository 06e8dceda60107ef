"""Replay: memory for online data, episodes on disk, and batches mixed from both."""

from .intake import Intake, IntakeTotals
from .labels import UNKNOWN, LabelBook
from .layout import EpisodeArrays, EpisodeRecord
from .ring import ReplayRing
from .sampler import MixedSampler
from .store import EpisodeStore, StoreSummary
from .writer import EpisodeWriter

__all__ = [
    "UNKNOWN",
    "EpisodeArrays",
    "EpisodeRecord",
    "EpisodeStore",
    "EpisodeWriter",
    "Intake",
    "IntakeTotals",
    "LabelBook",
    "MixedSampler",
    "ReplayRing",
    "StoreSummary",
]

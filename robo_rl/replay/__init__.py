"""Replay: memory for online data, episodes on disk, and batches mixed from both."""

from .reward import RewardWeights
from .ring import ReplayRing, Statistics
from .sampler import MixedSampler

__all__ = ["MixedSampler", "ReplayRing", "RewardWeights", "Statistics"]

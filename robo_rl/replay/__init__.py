"""Replay buffer for online data, data sets of episodes on disk, and a sampler that mixes both."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

if TYPE_CHECKING:
    from .counterfactual import Counterfactual
    from .hindsight import Hindsight
    from .intake import Intake
    from .labels import UNKNOWN, LabelBook
    from .layout import EpisodeArrays, EpisodeRecord
    from .ring import ReplayRing
    from .sampler import MixedSampler
    from .saved_episodes import SavedEpisodes
    from .store import EpisodeStore, StoreSummary
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = [
    "UNKNOWN",
    "Counterfactual",
    "EpisodeArrays",
    "EpisodeRecord",
    "EpisodeStore",
    "Hindsight",
    "Intake",
    "LabelBook",
    "MixedSampler",
    "ReplayRing",
    "SavedEpisodes",
    "StoreSummary",
]

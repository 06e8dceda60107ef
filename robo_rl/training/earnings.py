"""The return of an episode while it is running."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Metrics, Reward


class Earnings:
    """The reward of an episode so far, in total and by term.

    Args:
        reward: combines the terms into one number.
        terms: names of the terms, in the order of the values.

    Attributes:
        total: sum over the steps whose reward is known.
    """

    def __init__(self, reward: Reward, terms: Sequence[str]) -> None:
        self._reward = reward
        self._names = tuple(terms)
        self.total = 0.0
        self.terms = dict.fromkeys(self._names, 0.0)

    def add(self, values: NDArray[np.float32], gamma: float) -> None:
        """Add the terms, of shape (n, terms), of n steps that are discounted by ``gamma``."""
        self.total += float(self._reward.combine(self._names, values, gamma).sum())
        for name, total in zip(self._names, values.sum(0).tolist(), strict=True):
            self.terms[name] += total

    def metrics(self) -> Metrics:
        """Return the metrics to log when the episode ends."""
        return {"episode_return": self.total, **{f"reward/{name}": total for name, total in self.terms.items()}}

    def facts(self) -> dict[str, Any]:
        """Return the state of an open episode for a checkpoint."""
        return {"episode_return": self.total, "episode_terms": self.terms}

    def load(self, facts: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`facts` returned."""
        self.total, self.terms = facts["episode_return"], dict(facts["episode_terms"])

"""What an episode earns while it goes on."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Metrics, Reward


class Earnings:
    """The reward of an episode so far, and what each term came to.

    Args:
        reward: makes one number of the terms.
        terms: their names, in the order of the values.

    Attributes:
        total: of the steps whose reward is known.
    """

    def __init__(self, reward: Reward, terms: Sequence[str]) -> None:
        self._reward = reward
        self._names = tuple(terms)
        self.total = 0.0
        self.terms = dict.fromkeys(self._names, 0.0)

    def add(self, values: NDArray[np.float32], gamma: float) -> None:
        """Count the terms (n, terms) of n steps, which are discounted by ``gamma``."""
        self.total += float(self._reward.combine(self._names, values, gamma).sum())
        for name, total in zip(self._names, values.sum(0).tolist(), strict=True):
            self.terms[name] += total

    def metrics(self) -> Metrics:
        """Return what is logged when the episode ends."""
        return {"episode_return": self.total, **{f"reward/{name}": total for name, total in self.terms.items()}}

    def facts(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of an open episode."""
        return {"episode_return": self.total, "episode_terms": self.terms}

    def load(self, facts: Mapping[str, Any]) -> None:
        """Go on from what :meth:`facts` returned."""
        self.total, self.terms = facts["episode_return"], dict(facts["episode_terms"])

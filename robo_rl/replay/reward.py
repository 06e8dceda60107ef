"""How reward terms become one reward."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, EnvSpec, nearest, require


@dataclass(frozen=True)
class RewardWeights:
    """A reward as a weighted sum of reward terms: ``sum(weights[name] * term[name]) + offset``.

    Replay stores the terms, not their sum, so the same data can be used with other weights.

    Attributes:
        weights: weight by name of the term; terms without a weight do not count.
        offset: added to the reward of every step, for example -1 for a cost of time.
    """

    weights: dict[str, float]
    offset: float = 0.0

    def __post_init__(self) -> None:
        require(len(self.weights) > 0, "reward.weights", "one weight or more by term", dict(self.weights))
        for name, weight in self.weights.items():
            require(math.isfinite(weight), f"reward.weights.{name}", "a finite number", weight)
        require(math.isfinite(self.offset), "reward.offset", "a finite number", self.offset)

    def check(self, spec: EnvSpec) -> None:
        """Raise :class:`ConfigError` unless the environment gives every term that has a weight."""
        self._check(spec.reward_terms)

    def vector(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """Return the weights in the order of ``terms``: (len(terms),) float32.

        Raises:
            ConfigError: if a weight is given to a term that is not among ``terms``.
        """
        self._check(terms)
        return np.array([self.weights.get(name, 0.0) for name in terms], dtype=np.float32)

    def _check(self, terms: Iterable[str]) -> None:
        known = set(terms)
        for name in self.weights:
            if name not in known:
                raise ConfigError(f"reward.weights: unknown reward term {name!r}: {nearest(name, known)}")

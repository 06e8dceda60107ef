"""The scalar reward: a weighted sum of the terms that a backend reports."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError, nearest
from .options import require
from .specs import EnvSpec

BEFORE = "/before"
"""Suffix of the second term of a potential, for the state before a step. The term without it is for the state after."""


@dataclass(frozen=True)
class RewardWeights:
    """The combination of the terms of a step into its reward.

    Terms are stored unweighted, so that other weights can be tried on the same data.

    Attributes:
        weights: weight by name of the term; None: ``success`` counts 1 if the task has it, else every term counts 1.
        others: weight of every term that is not in ``weights``.
        offset: added to the reward of every step, for example -1 as the cost of time.
    """

    weights: dict[str, float] | None = None
    others: float = 0.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        values = [*(self.weights or {}).values(), self.others, self.offset]
        require(bool(np.isfinite(values).all()), "reward.weights, reward.others and reward.offset", "finite", values)

    @property
    def scorer(self) -> None:
        """None: all terms come from the backend."""
        return None

    @property
    def task(self) -> "RewardWeights":
        """The reward that evaluations report: these weights."""
        return self

    def make(self, spec: EnvSpec, seed: int) -> "RewardWeights":
        """Return these weights, after checking that a task of ``spec`` has the terms they name.

        Raises:
            ConfigError: if it does not.
        """
        self.vector(spec.reward_terms)
        return self

    def combine(self, terms: Sequence[str], values: NDArray[np.float32], gamma: float) -> NDArray[np.float32]:
        """Return the rewards (...,) of steps with ``values`` (..., T) of the T named ``terms``.

        Raises:
            ConfigError: if a term has a weight and is not among ``terms``.
        """
        total: NDArray[np.float32] = values @ self.vector(terms) + np.float32(self.offset)
        return total

    def vector(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """Return the weight of each of ``terms``.

        Raises:
            ConfigError: if a term has a weight and is not among ``terms``.
        """
        weights = self._named(terms)
        for name in weights:
            if name not in terms:
                raise ConfigError(f"reward.weights: this task has no term {name!r}: {nearest(name, terms)}")
        return np.array([weights.get(name, self.others) for name in terms], dtype=np.float32)

    def value(self, rewards: Mapping[str, float]) -> float:
        """Return the reward of one step from its terms."""
        weights = self._named(rewards)
        return self.offset + sum(weights.get(name, self.others) * term for name, term in rewards.items())

    def _named(self, terms: Collection[str]) -> Mapping[str, float]:
        if self.weights is not None:
            return self.weights
        return {"success": 1.0} if "success" in terms else dict.fromkeys(terms, 1.0)

"""Occupancy regularisation: a penalty for divergence from demonstrations (ORPO, Laidlaw et al. 2024)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import softplus

from robo_rl.core import (
    Batch,
    EnvSpec,
    Experience,
    Metrics,
    generator,
    option,
    require,
)

from ..parts.demonstrations import succeeded
from ..parts.module import Floats
from ..parts.vector_config import NetworkConfig
from ..parts.vector_module import NetworkModule

DIVERGENCES = ("chi_squared", "kl")

_TRIMMED = 0.01
"""Share of the largest ratios that the chi-squared divergence omits, as in ORPO."""


@dataclass(frozen=True)
class OccupancyConfig(NetworkConfig):
    """Reward whose mean over the policy's states is minus their divergence from the states of demonstrations.

    A reward that is right along the demonstrations may be wrong elsewhere. With weight 0, this module monitors whether
    the policy leaves their states while its reward rises; with another weight, it keeps the policy near them.

    Attributes (besides those of :class:`.NetworkConfig`):
        divergence: ``chi_squared``, whose root is used, or ``kl``.
        window: number of newest states of the policy that are compared.
        largest_ratio: largest ratio of the densities, either way; larger ones are clipped.
        jitter: standard deviation of the noise added to states, relative to that of each element over the
            demonstrations: closer states are not distinguished. Without it, a network memorises the few demonstrated
            states.
        interval: environment steps between updates.
        updates: number of gradient steps of each update.
        first_updates: number of gradient steps of the first update, so that divergences are comparable from then on: a
            network that has learned little distinguishes little.
        learning_starts: number of states of the policy before the first update; until then every state has reward 0.
        batch_size: number of states in each gradient step, half of them demonstrated.
    """

    divergence: str = option("chi_squared", choices=DIVERGENCES)
    window: int = option(1000, low=1)
    largest_ratio: float = option(100.0, above=1, below=math.inf)
    jitter: float = option(0.1, low=0)
    interval: int = option(10, low=1)
    updates: int = option(10, low=1)
    first_updates: int = option(500, low=1)
    learning_starts: int = option(100, low=1)
    batch_size: int = option(128, low=2)

    def __post_init__(self) -> None:
        super().__post_init__()
        is_valid = self.learning_starts <= self.window
        require(is_valid, "learning_starts", f"at most window={self.window}", self.learning_starts)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "OccupancyReward":
        """Return the module of term ``name``."""
        return OccupancyReward(self, name, spec, seed)


class OccupancyReward(NetworkModule):
    """Penalty for the divergence from demonstrations; see :class:`OccupancyConfig`.

    The logit d of a network distinguishes the policy's states (label 1) from demonstrated states. It is trained with
    cross-entropy, whose optimum is the logarithm of the ratio of the policy's density to that of the demonstrations.
    Under the policy the mean of d is the Kullback-Leibler divergence, and the mean of exp(d) - 1 is the chi-squared
    divergence. A reward is minus d, or minus exp(d) - 1 divided by the root of the chi-squared divergence of the newest
    states, so that its mean is minus the root.
    """

    learned = True

    config: OccupancyConfig

    def __init__(self, config: OccupancyConfig, name: str, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, name, spec, seed)
        self._network = self._make_network()
        self._rows["demonstrated"] = np.zeros((0, self._input.size), dtype=np.float32)
        counts = np.zeros(3, dtype=np.int64)
        self._version, self._waited, self._state_count = counts[:1], counts[1:2], counts[2:]
        self._arrays |= {
            "newest": np.zeros((config.window, self._input.size), dtype=np.float32),
            "root": np.ones(1, dtype=np.float32),
            "counts": counts,
        }

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Store the states of the demonstrations."""
        episodes = succeeded(episodes, self._name)
        demonstrated = np.concatenate([self._input(episode) for episode in episodes])
        self._normalise(demonstrated)
        self._rows["demonstrated"] = self._scaled(demonstrated)
        return {}

    def observe(self, batch: Batch) -> None:
        """Store states of the policy, replacing the oldest."""
        states = self._scaled(self._input(batch))
        self._arrays["newest"][(self._state_count + np.arange(len(states))) % self.config.window] = states
        self._state_count += len(states)

    def __call__(self, batch: Batch) -> Floats:
        """Return rewards (n,)."""
        if self.version == 0:
            return np.zeros(len(batch["action"]), dtype=np.float32)
        rewards: Floats = -self._divergences(self._scaled(self._input(batch))) / self._arrays["root"]
        return rewards

    def update(self, experience: Experience) -> Metrics:
        """Learn to distinguish the policy's newest states from demonstrated states, every ``interval`` calls.

        Returns:
            ``loss``, the cross-entropy averaged over the steps, and ``divergence``: the divergence of the newest states
            from the demonstrated ones, or its root if it is chi-squared.
        """
        config, state_count = self.config, int(self._state_count[0])
        if not self._is_due(config.interval, state_count >= config.learning_starts):
            return {}
        newest = self._arrays["newest"][: min(state_count, config.window)]
        losses = []
        for step in range(config.updates if self.version else config.first_updates):
            rng = generator(self._seed, "update", self.version, step)
            policy, demonstrated = (
                side[rng.integers(0, len(side), config.batch_size // 2)]
                for side in (newest, self._rows["demonstrated"])
            )
            states = np.concatenate((policy, demonstrated))
            states = states + np.float32(config.jitter) * rng.standard_normal(states.shape, np.float32)
            logits = self._network(torch.from_numpy(states))[:, 0]
            loss = softplus(-logits[: len(policy)]).mean() + softplus(logits[len(policy) :]).mean()
            losses.append(self._network.descend(loss))
        self.version += 1
        divergence = self._divergence(newest)
        if config.divergence == "chi_squared":
            divergence = math.sqrt(divergence)
            self._arrays["root"][0] = divergence or 1.0
        return {"loss": float(np.mean(losses)), "divergence": divergence}

    def _divergence(self, states: Floats) -> float:
        """Return the divergence of states (n, F) of the policy, 0 or more; chi-squared omits the largest ratios."""
        values = np.sort(self._divergences(states))
        if self.config.divergence == "chi_squared":
            values = values[: len(values) - int(_TRIMMED * len(values))]
        return max(float(values.mean()), 0.0)

    def _divergences(self, states: Floats) -> Floats:
        """Return the values (n,) whose mean is the divergence, for scaled states (n, F)."""
        limit = math.log(self.config.largest_ratio)
        logits: Floats = self._network.evaluate(torch.from_numpy(states))[:, 0].clamp(-limit, limit).numpy()
        return np.expm1(logits) if self.config.divergence == "chi_squared" else logits

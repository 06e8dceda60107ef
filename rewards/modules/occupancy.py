"""How far from demonstrations a policy goes: occupancy regularisation (ORPO, Laidlaw et al. 2024)."""

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
from ..parts.vector_module import NetworkConfig, NetworkModule

DIVERGENCES = ("chi_squared", "kl")

_TRIMMED = 0.01
"""Share of the largest ratios that the chi-squared divergence is computed without, as in ORPO."""


@dataclass(frozen=True)
class OccupancyConfig(NetworkConfig):
    """Minus the divergence of the policy's states from those of demonstrations, in the mean over the policy's.

    A reward that agrees with what is wanted where demonstrations go need not do so elsewhere. With weight 0 this module
    watches whether the policy leaves them while its reward rises; with a weight it keeps the policy near them.

    Attributes (besides those of :class:`.NetworkConfig`):
        divergence: ``chi_squared``, of which the root is what counts, or ``kl``.
        window: the policy's newest states that count as its own.
        largest_ratio: of the densities, either way: further apart is not told apart.
        jitter: deviation of the noise added to states, in deviations of each element over the demonstrations: so
            near, they are not told apart. Without it a network knows the few that were demonstrated by heart.
        interval: environment steps between updates.
        updates: steps of each update.
        first_updates: steps of the first one, so that divergences are comparable from then on: a network that has
            learned little tells little apart.
        learning_starts: states of the policy before the first; until then every state earns 0.
        batch_size: states of each step, half of them demonstrated.
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
        fits = self.learning_starts <= self.window
        require(fits, "learning_starts", f"at most window={self.window}", self.learning_starts)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "OccupancyReward":
        """Return the module of term ``name``."""
        return OccupancyReward(self, name, spec, seed)


class OccupancyReward(NetworkModule):
    """See :class:`OccupancyConfig`.

    A network's logit d tells the policy's states (label 1) from demonstrated ones by cross-entropy, whose optimum is
    the logarithm of the ratio of their densities, the policy's over the demonstrations'. Under the policy the mean of d
    is the Kullback-Leibler divergence, and that of exp(d) - 1 the chi-squared divergence. Rewards are minus these; of
    the latter divided by its root over the newest states, so that the mean is minus the root.

    Args:
        config: of the module.
        name: of its term.
        spec: of the environment.
        seed: of the run.

    Raises:
        ConfigError: if an observation key is not there.
    """

    learned = True

    config: OccupancyConfig

    def __init__(self, config: OccupancyConfig, name: str, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, name, spec, seed)
        self._network = self._make_network()
        self._rows["demonstrated"] = np.zeros((0, self._input.size), dtype=np.float32)
        counts = np.zeros(3, dtype=np.int64)
        self._version, self._waited, self._seen = counts[:1], counts[1:2], counts[2:]
        self._arrays |= {
            "newest": np.zeros((config.window, self._input.size), dtype=np.float32),
            "root": np.ones(1, dtype=np.float32),
            "counts": counts,
        }

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Take note of what was demonstrated.

        Raises:
            DataError: if there is nothing.
        """
        episodes = succeeded(episodes, self._name)
        demonstrated = np.concatenate([self._input(episode) for episode in episodes])
        self._normalise(demonstrated)
        self._rows["demonstrated"] = self._scaled(demonstrated)
        return {}

    def observe(self, batch: Batch) -> None:
        """Take note of states of the policy, in the place of the oldest."""
        states = self._scaled(self._input(batch))
        self._arrays["newest"][(self._seen + np.arange(len(states))) % self.config.window] = states
        self._seen += len(states)

    def __call__(self, batch: Batch) -> Floats:
        """Return rewards (n,)."""
        if self.version == 0:
            return np.zeros(len(batch["action"]), dtype=np.float32)
        rewards: Floats = -self._told(self._scaled(self._input(batch))) / self._arrays["root"]
        return rewards

    def update(self, experience: Experience) -> Metrics:
        """Learn to tell the policy's newest states from those demonstrated, every ``interval`` calls.

        Returns:
            ``loss``, the cross-entropy, a mean over the steps, and ``divergence``: of the newest states from those
            demonstrated, of chi-squared its root.
        """
        config, seen = self.config, int(self._seen[0])
        if not self._is_due(config.interval, seen >= config.learning_starts):
            return {}
        newest = self._arrays["newest"][: min(seen, config.window)]
        losses = []
        for step in range(config.updates if self.version else config.first_updates):
            rng = generator(self._seed, "update", self.version, step)
            ours, theirs = (
                side[rng.integers(0, len(side), config.batch_size // 2)]
                for side in (newest, self._rows["demonstrated"])
            )
            states = np.concatenate((ours, theirs))
            states = states + np.float32(config.jitter) * rng.standard_normal(states.shape, np.float32)
            logits = self._network(torch.from_numpy(states))[:, 0]
            loss = softplus(-logits[: len(ours)]).mean() + softplus(logits[len(ours) :]).mean()
            losses.append(self._network.descend(loss))
        self.version += 1
        divergence = self._divergence(newest)
        if config.divergence == "chi_squared":
            divergence = math.sqrt(divergence)
            self._arrays["root"][0] = divergence or 1.0
        return {"loss": float(np.mean(losses)), "divergence": divergence}

    def _divergence(self, states: Floats) -> float:
        """Return the mean (n,) over states of the policy, 0 or more; of chi-squared without its largest."""
        told = np.sort(self._told(states))
        if self.config.divergence == "chi_squared":
            told = told[: len(told) - int(_TRIMMED * len(told))]
        return max(float(told.mean()), 0.0)

    def _told(self, states: Floats) -> Floats:
        """Return what the divergence is the mean of (n,) for scaled states (n, F)."""
        most = math.log(self.config.largest_ratio)
        logits: Floats = self._network.evaluate(torch.from_numpy(states))[:, 0].clamp(-most, most).numpy()
        return np.expm1(logits) if self.config.divergence == "chi_squared" else logits

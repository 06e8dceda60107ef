"""How far from demonstrations a policy goes: occupancy regularisation (ORPO, Laidlaw et al. 2024)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import softplus

from robo_rl.core import (
    Batch,
    EnvSpec,
    Experience,
    Metrics,
    Options,
    State,
    as_config,
    derive_seed,
    generator,
    option,
    require,
)

from .images import ImagesConfig
from .module import (
    Floats,
    Module,
    VectorInput,
    succeeded,
    take_over,
    taken,
    with_prefix,
    without_prefix,
)
from .networks import TrainedNetwork

DIVERGENCES = ("chi_squared", "kl")

_TRIMMED = 0.01
"""Share of the largest ratios that the chi-squared divergence is computed without, as in ORPO."""


@dataclass(frozen=True)
class OccupancyConfig(Options):
    """Minus the divergence of the policy's states from those of demonstrations, in the mean over the policy's.

    A reward that agrees with what is wanted where demonstrations go need not do so elsewhere. With weight 0 this module
    watches whether the policy leaves them while its reward rises; with a weight it keeps the policy near them.

    Attributes:
        keys: observation keys to look at; null: all that are not images.
        images: how those among them that are images are seen.
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
        hidden: widths of the hidden layers.
        learning_rate: of Adam.
    """

    keys: tuple[str, ...] | None = None
    images: ImagesConfig = field(default_factory=ImagesConfig)
    divergence: str = option("chi_squared", choices=DIVERGENCES)
    window: int = option(1000, low=1)
    largest_ratio: float = option(100.0, above=1, below=math.inf)
    jitter: float = option(0.1, low=0)
    interval: int = option(10, low=1)
    updates: int = option(10, low=1)
    first_updates: int = option(500, low=1)
    learning_starts: int = option(100, low=1)
    batch_size: int = option(128, low=2)
    hidden: tuple[int, ...] = (64, 64)
    learning_rate: float = option(1e-3, above=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "images", as_config(self.images, ImagesConfig))
        object.__setattr__(self, "hidden", tuple(self.hidden))
        fits = self.learning_starts <= self.window
        require(fits, "learning_starts", f"at most window={self.window}", self.learning_starts)
        require(all(width >= 1 for width in self.hidden), "hidden", "widths of 1 or more", list(self.hidden))

    def make(self, name: str, spec: EnvSpec, seed: int) -> "Occupancy":
        """Return the module of term ``name``."""
        return Occupancy(self, name, spec, seed)


class Occupancy(Module):
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

    def __init__(self, config: OccupancyConfig, name: str, spec: EnvSpec, seed: int) -> None:
        super().__init__()
        self.config = config
        self._name = name
        self._seed = derive_seed(seed, "reward", name)
        self._input = VectorInput(config.keys, config.images, spec, f"reward.modules.{name}")
        size = self._input.size
        self._network = TrainedNetwork(
            size,
            config.hidden,
            1,
            learning_rate=config.learning_rate,
            seed=derive_seed(self._seed, "network"),
            name=name,
        )
        self._demonstrated = np.zeros((0, size), dtype=np.float32)
        self._arrays: dict[str, NDArray[Any]] = {
            "shift": np.zeros(size, dtype=np.float32),
            "scale": np.ones(size, dtype=np.float32),
            "newest": np.zeros((config.window, size), dtype=np.float32),
            "root": np.ones(1, dtype=np.float32),
            "counts": np.zeros(3, dtype=np.int64),  # version, steps since the last update, states seen
        }

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Take note of what was demonstrated.

        Raises:
            DataError: if there is nothing.
        """
        episodes = succeeded(episodes, self._name)
        demonstrated = np.concatenate([self._input(episode) for episode in episodes])
        self._arrays["shift"][...], self._arrays["scale"][...] = self._input.scaling(demonstrated)
        self._demonstrated = self._scaled(demonstrated)
        return {}

    def observe(self, batch: Batch) -> None:
        """Take note of states of the policy, in the place of the oldest."""
        states, counts = self._scaled(self._input(batch)), self._arrays["counts"]
        self._arrays["newest"][(counts[2] + np.arange(len(states))) % self.config.window] = states
        counts[2] += len(states)

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
        config, counts = self.config, self._arrays["counts"]
        counts[1] += 1
        if counts[1] < config.interval or counts[2] < config.learning_starts:
            return {}
        newest = self._arrays["newest"][: min(counts[2], config.window)]
        losses = []
        for step in range(config.updates if self.version else config.first_updates):
            rng = generator(self._seed, "update", self.version, step)
            ours, theirs = (
                side[rng.integers(0, len(side), config.batch_size // 2)] for side in (newest, self._demonstrated)
            )
            states = np.concatenate((ours, theirs))
            states = states + np.float32(config.jitter) * rng.standard_normal(states.shape, np.float32)
            logits = self._network(torch.from_numpy(states))[:, 0]
            loss = softplus(-logits[: len(ours)]).mean() + softplus(logits[len(ours) :]).mean()
            losses.append(self._network.descend(loss))
        self.version += 1
        counts[:2] = self.version, 0
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

    def _scaled(self, vectors: Floats) -> Floats:
        scaled: Floats = (vectors - self._arrays["shift"]) / self._arrays["scale"]
        return scaled

    def state(self) -> State:
        """Return network, optimiser, what was demonstrated, and the newest states."""
        network = with_prefix("network/", self._network.state())
        return {**self._arrays, **network, "demonstrated": self._demonstrated, **self._input.state()}

    def load(self, state: State) -> None:
        """Go on from ``state``.

        Raises:
            CheckpointError: if it is of another module.
        """
        self._input.check(state, self._name)
        take_over(self._arrays, state, self._name)
        self.version = int(self._arrays["counts"][0])
        self._demonstrated = taken(state, "demonstrated", self._name, like=self._demonstrated)
        self._network.load(without_prefix("network/", state))

"""Reward for visiting new states, independent of the task (APT, Liu and Abbeel 2021)."""

from dataclasses import dataclass

import numpy as np
import torch

from robo_rl.core import (
    Batch,
    EnvSpec,
    Experience,
    Metrics,
    generator,
    option,
    require,
)

from ..parts.module import Floats
from ..parts.vector_config import VectorConfig
from ..parts.vector_module import VectorModule


@dataclass(frozen=True)
class NoveltyConfig(VectorConfig):
    """Reward of log(1 + distance) for states far from those of the replay: data collection without supervision.

    Attributes (besides those of :class:`.VectorConfig`):
        particles: number of states of the replay to which distances are computed, resampled at each update.
        neighbours: number of nearest particles; the distance is the mean of the distances to them.
        interval: environment steps between updates; before the first update every state has reward 0.
    """

    particles: int = option(512, low=1)
    neighbours: int = option(5, low=1)
    interval: int = option(20, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        is_valid = self.neighbours <= self.particles
        require(is_valid, "neighbours", f"at most particles={self.particles}", self.neighbours)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "NoveltyReward":
        """Return the module of term ``name``."""
        return NoveltyReward(self, name, spec, seed)


class NoveltyReward(VectorModule):
    """Reward for distance from earlier states; see :class:`NoveltyConfig`.

    Distances are Euclidean, with each element divided by its deviation over the particles.
    """

    learned = True

    config: NoveltyConfig

    def __init__(self, config: NoveltyConfig, name: str, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, name, spec, seed)
        counts = np.zeros(2, np.int64)
        self._version, self._waited = counts[:1], counts[1:]
        self._arrays |= {
            "particles": np.zeros((config.particles, self._input.size), np.float32),
            "scale": np.ones(self._input.size, np.float32),
            "counts": counts,
        }

    def __call__(self, batch: Batch) -> Floats:
        """Return rewards (n,), 0 or more."""
        states = self._input(batch)
        if self.version == 0:
            return np.zeros(len(states), np.float32)
        scale = self._arrays["scale"]
        distances = torch.cdist(torch.from_numpy(states / scale), torch.from_numpy(self._arrays["particles"] / scale))
        nearest = distances.topk(self.config.neighbours, dim=1, largest=False).values
        rewards: Floats = nearest.mean(1).log1p().numpy()
        return rewards

    def update(self, experience: Experience) -> Metrics:
        """Draw new particles every ``interval`` calls; return the mean novelty of states in the replay buffer."""
        if not self._is_due(self.config.interval, len(experience) > 0):
            return {}
        rng = generator(self._seed, "particles", self.version)
        self._arrays["particles"][...] = self._input(experience.sample_rows(self.config.particles, rng))
        deviation = self._arrays["particles"].std(0)
        self._arrays["scale"][...] = np.where(deviation > 1e-6, deviation, 1.0)
        self.version += 1
        rows = experience.sample_rows(256, generator(self._seed, "look", self.version))
        return {"novelty": float(self(rows).mean())}

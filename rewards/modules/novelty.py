"""A reward for going where the robot has not been, whatever for (APT, Liu and Abbeel 2021)."""

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
from ..parts.vector_module import VectorConfig, VectorModule


@dataclass(frozen=True)
class NoveltyConfig(VectorConfig):
    """A reward of log(1 + distance) for states far from those of the replay: data collection without supervision.

    Attributes (besides those of :class:`.VectorConfig`):
        particles: states of the replay that distances are from, drawn anew at each update.
        neighbours: the distance is the mean of those to so many nearest particles.
        interval: environment steps between updates; before the first one every state earns 0.
    """

    particles: int = option(512, low=1)
    neighbours: int = option(5, low=1)
    interval: int = option(20, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.neighbours <= self.particles
        require(fits, "neighbours", f"at most particles={self.particles}", self.neighbours)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "NoveltyReward":
        """Return the module of term ``name``."""
        return NoveltyReward(self, name, spec, seed)


class NoveltyReward(VectorModule):
    """See :class:`NoveltyConfig`. Distances are Euclidean, of elements divided by their deviation over the particles.

    Args:
        config: of the module.
        name: of its term.
        spec: of the environment.
        seed: of the run.

    Raises:
        ConfigError: if an observation key is not there.
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
        apart = torch.cdist(torch.from_numpy(states / scale), torch.from_numpy(self._arrays["particles"] / scale))
        near = apart.topk(self.config.neighbours, dim=1, largest=False).values
        rewards: Floats = near.mean(1).log1p().numpy()
        return rewards

    def update(self, experience: Experience) -> Metrics:
        """Draw the particles anew every ``interval`` calls; return how novel the states of the replay are."""
        if not self._is_due(self.config.interval, len(experience) > 0):
            return {}
        rng = generator(self._seed, "particles", self.version)
        self._arrays["particles"][...] = self._input(experience.sample_rows(self.config.particles, rng))
        deviation = self._arrays["particles"].std(0)
        self._arrays["scale"][...] = np.where(deviation > 1e-6, deviation, 1.0)
        self.version += 1
        rows = experience.sample_rows(256, generator(self._seed, "look", self.version))
        return {"novelty": float(self(rows).mean())}

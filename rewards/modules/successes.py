"""Reward for similarity to the run's own successes, on trajectories of states (SRPO, Fei et al. 2025)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, EnvSpec, Metrics, option

from ..parts.module import Floats
from ..parts.vector_config import VectorConfig
from ..parts.vector_module import VectorModule

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class SuccessesConfig(VectorConfig):
    """Reward at the end of an episode: 1 for success; for a failure, the larger the closer it is to successes.

    It needs the task's verdict on whole episodes, but no demonstrations; existing demonstrations count as successes.

    Attributes (besides those of :class:`.VectorConfig`):
        moments: number of evenly spaced moments at which the states describe an episode.
        memory: number of newest successes, and of newest failures, that are stored.
        radius: distance within which successes are neighbours; see :func:`distances` for the unit.
        neighbours: number of neighbours, including itself, of a success inside a cluster.
        largest: upper limit of the reward of a failure.
        steepness: steepness of the logistic function that maps a distance to a reward.
    """

    moments: int = option(8, low=1)
    memory: int = option(100, low=1)
    radius: float = option(0.5, above=0)
    neighbours: int = option(2, low=1)
    largest: float = option(0.6, above=0, high=1)
    steepness: float = option(10.0, above=0)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "SuccessesReward":
        """Return the module of term ``name``."""
        return SuccessesReward(self, name, spec)


class SuccessesReward(VectorModule):
    """Reward of whole episodes by their similarity to successes; see :class:`SuccessesConfig`.

    Descriptions are normalised by mean and deviation of the stored successes, which are then clustered. The distance of
    a failure is the distance to the mean of the nearest cluster, or to the mean of all successes if there are no
    clusters. With its position p between the smallest (0) and the largest (1) distance of the stored failures, the
    reward of a failure is ``largest`` * sigmoid(``steepness`` * (0.5 - p)); p is 0.5 if all distances are equal. Before
    the first success the reward of a failure is 0. The published reward ranks the failures of one batch; this one ranks
    the stored failures.
    """

    whole_episodes = True
    judges_state = False

    config: SuccessesConfig

    def __init__(self, config: SuccessesConfig, name: str, spec: EnvSpec) -> None:
        super().__init__(config, name, spec)
        empty = np.zeros((0, config.moments * self._input.size), dtype=np.float32)
        self._rows |= {"successes": empty, "failures": empty}

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Store the successes among the demonstrations."""
        for episode in episodes:
            if _succeeded(episode):
                self.observe(episode)
        return {}

    def observe(self, batch: Batch) -> None:
        """Store an episode."""
        kind = "successes" if _succeeded(batch) else "failures"
        self._rows[kind] = np.concatenate((self._rows[kind], self._description(batch)))[-self.config.memory :]

    def __call__(self, batch: Batch) -> Floats:
        """Return the rewards (n,) of the n steps of one episode, in order: all except the last are 0."""
        rewards = np.zeros(len(batch["action"]), dtype=np.float32)
        rewards[-1] = 1.0 if _succeeded(batch) else self._failure_reward(self._description(batch))
        return rewards

    def _description(self, episode: Batch) -> Floats:
        """Return the description (1, moments F) of an episode."""
        trajectory = self._input.trajectory(episode)
        moments = np.linspace(0, len(trajectory) - 1, self.config.moments).round().astype(int)
        description: Floats = trajectory[moments].reshape(1, -1)
        return description

    def _failure_reward(self, failure: Floats) -> float:
        config, successes = self.config, self._rows["successes"].astype(np.float64)
        if not len(successes):
            return 0.0
        shift, scale = successes.mean(0), np.where(successes.std(0) > 1e-6, successes.std(0), 1.0)
        scaled = (successes - shift) / scale
        labels = clusters(scaled, config.radius, config.neighbours)
        centres = np.stack([scaled[labels == label].mean(0) for label in range(labels.max() + 1)] or [scaled.mean(0)])
        failures = np.concatenate((self._rows["failures"], failure)).astype(np.float64)
        failure_distances = distances((failures - shift) / scale, centres).min(1)
        spread = failure_distances.max() - failure_distances.min()
        position = 0.5 if spread < 1e-6 else (failure_distances[-1] - failure_distances.min()) / spread
        return float(config.largest / (1 + np.exp(-config.steepness * (0.5 - position))))


def _succeeded(episode: Batch) -> bool:
    return bool(episode["success"][-1] == 1)


def distances(ones: Doubles, others: Doubles) -> Doubles:
    """Return the root of the mean squared difference (n, m) of vectors (n, F) and (m, F)."""
    result: Doubles = np.sqrt(((ones[:, None] - others) ** 2).mean(-1))
    return result


def clusters(points: Doubles, radius: float, neighbours: int) -> NDArray[np.int64]:
    """Return the cluster of each point (n,), from 0, or -1 for noise, by DBSCAN (Ester et al. 1996).

    Args:
        points: (n, F).
        radius: points at most this far apart are neighbours.
        neighbours: number of neighbours, including the point itself, that a point needs to extend its cluster to them.
    """
    near = distances(points, points) <= radius
    core = near.sum(1) >= neighbours
    labels = np.full(len(points), -1, dtype=np.int64)
    for seed in np.flatnonzero(core):
        if labels[seed] >= 0:
            continue
        label, waiting = labels.max() + 1, [seed]
        while waiting:
            point = waiting.pop()
            if labels[point] < 0:
                labels[point] = label
                if core[point]:
                    waiting.extend(np.flatnonzero(near[point] & (labels < 0)))
    return labels

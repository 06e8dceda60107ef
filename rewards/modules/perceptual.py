"""Unsupervised perceptual rewards: the steps of a task in a few demonstrations (Sermanet et al. 2017)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, EnvSpec, Metrics

from ..parts.demonstrations import constant_elements, long_enough, succeeded
from ..parts.module import Floats
from ..parts.segmentation import Doubles, segment, segment_jointly, segment_labels
from ..parts.vector_module import VectorModule
from .perceptual_options import PerceptualOptions


@dataclass(frozen=True)
class PerceptualConfig(PerceptualOptions):
    """Module as configured by :class:`.PerceptualOptions`."""

    def make(self, name: str, spec: EnvSpec, seed: int) -> "PerceptualReward":
        """Return the module of term ``name``."""
        return PerceptualReward(self, name, spec)


class PerceptualReward(VectorModule):
    """Reward for reaching the steps of demonstrations; see :class:`.PerceptualOptions`.

    A step g of the demonstrations is described by its most discriminative features: mean m and variance v over its
    observations in all demonstrations. With d = (x - m)^2 / (v + floor), the reward of a step is the mean over these
    features of -d/2 (``gaussian``) or -log(1 + d) (``cauchy``); the paper prints the mean of d, which has the sign of a
    cost. The first step is the beginning of the task and has no reward. The rewards of the other steps are summed, each
    with ``growth`` times the weight of the previous one; the weights sum to 1. Rewards are therefore at most 0.

    If a step is reached and left again (a lever that is turned and released), that sum falls on the way to the goal.
    ``reward=progress`` estimates the current step instead: each step is described by all features that any of them
    keeps. The features are assumed to be independent and the steps equally likely a priori (naive Bayes). With
    probabilities p of G steps the reward is f sum(p g) / (G - 1) - 1 for g from 0. Far from all steps, the step with
    the largest variance would be the most probable one, which a learner could exploit. Let d be the mean over features
    of (x - m)^2 / (v + floor) for the nearest step, and D the largest d of an observation in the demonstrations. Then f
    is (D / d)^2 if d is above D, else 1, so that an observation unlike all steps approaches the reward of the first
    step.
    """

    config: PerceptualConfig

    def __init__(self, config: PerceptualConfig, name: str, spec: EnvSpec) -> None:
        super().__init__(config, name, spec)
        self.whole_episodes = self._input.encodes
        rewarded = config.steps - 1
        feature_count = min(config.features or round(math.sqrt(self._input.size)), self._input.size)
        self._arrays |= {
            "shift": np.zeros(self._input.size),
            "scale": np.ones(self._input.size),
            "chosen": np.zeros((rewarded, feature_count), dtype=np.int64),
            "mean": np.zeros((rewarded, feature_count)),
            "precision": np.ones((rewarded, feature_count)),
        }
        if config.reward == "progress":
            self._arrays["all_means"] = np.zeros((config.steps, self._input.size))
            self._arrays["all_variances"] = np.ones((config.steps, self._input.size))
            self._arrays["farthest"] = np.ones(1)
        weights = config.growth ** np.arange(rewarded)
        self._weights = weights / weights.sum()

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Find the steps and their features. Demonstrations that are too short for all steps are left out.

        Raises:
            DataError: if there are no demonstrations, or all are too short.
        """
        episodes = succeeded(episodes, self._name)
        least = self.config.steps * self.config.min_length
        trajectories = long_enough([self._input.trajectory(each) for each in episodes], least, self._name)
        all_observations = np.concatenate(trajectories).astype(np.float64)
        scale = all_observations.std(0)
        # A constant element contains no information. Its scale is 1, and its value in the demonstrations becomes 0.
        shift, scale = all_observations.mean(0), np.where(scale > 1e-6, scale, 1.0)
        scaled = [(trajectory - shift) / scale for trajectory in trajectories]
        steps, least = self.config.steps, self.config.min_length
        if self.config.segmentation == "joint":
            begins = segment_jointly(scaled, steps, least)
        else:
            begins = [segment(each, steps, least) for each in scaled]
        features = np.concatenate(scaled)
        # Elements that are constant in each demonstration differ between steps only because step lengths differ.
        constant = constant_elements(scaled)
        label = np.concatenate([segment_labels(*each) for each in zip(begins, map(len, scaled), strict=True)])
        chosen, means, precisions = [], [], []
        for step in range(1, steps):
            negative = label < step if self.config.negatives == "earlier" else label != step
            inside, outside = features[label == step], features[negative]
            score = discrimination(inside, outside, self.config.separation)
            order = np.argsort(np.where(constant, np.inf, -score), kind="stable")
            best = np.sort(order[: self._arrays["chosen"].shape[1]])
            chosen.append(best)
            means.append(inside[:, best].mean(0))
            precisions.append(1 / (inside[:, best].var(0) + self.config.variance_floor))
        fitted = {"shift": shift, "scale": scale, "chosen": chosen, "mean": means, "precision": precisions}
        if self.config.reward == "progress":
            step_features = [features[label == step] for step in range(steps)]
            all_means = np.array([inside.mean(0) for inside in step_features])
            all_variances = np.array([inside.var(0) for inside in step_features]) + self.config.variance_floor
            used_features = np.unique(chosen)
            distances = step_distance(
                features[:, used_features], all_means[:, used_features], all_variances[:, used_features]
            )
            fitted |= {"all_means": all_means, "all_variances": all_variances, "farthest": distances.max()}
        for key, value in fitted.items():
            self._arrays[key][...] = value
        return {}

    def __call__(self, batch: Batch) -> Floats:
        """Return rewards (n,), at most 0."""
        arrays = self._arrays
        features = (self._input(batch).astype(np.float64) - arrays["shift"]) / arrays["scale"]
        if self.config.reward == "progress":
            used_features = np.unique(arrays["chosen"])
            means, variances = arrays["all_means"][:, used_features], arrays["all_variances"][:, used_features]
            progress = step_progress(features[:, used_features], self.config.density, means, variances)
            distance = step_distance(features[:, used_features], means, variances)
            familiar = (arrays["farthest"] / np.maximum(distance, arrays["farthest"])) ** 2
            total = (1 + progress) * familiar - 1
        else:
            chosen, mean, precision = arrays["chosen"], arrays["mean"], arrays["precision"]
            rewards = step_rewards(features, self.config.density, chosen=chosen, mean=mean, precision=precision)
            total = rewards @ self._weights
        result: Floats = total.astype(np.float32)
        return result


def discrimination(inside: Doubles, outside: Doubles, separation: float) -> Doubles:
    """Return how well each feature (F,) separates observations (n, F) of a step from others (m, F)."""
    score: Doubles = separation * np.abs(inside.mean(0) - outside.mean(0)) - (inside.std(0) + outside.std(0))
    return score


def step_rewards(
    features: Doubles, density: str, *, chosen: NDArray[np.int64], mean: Doubles, precision: Doubles
) -> Doubles:
    """Return the reward (n, G) of scaled observations (n, F) for each of G steps.

    Args:
        features: scaled observations.
        density: see :class:`.PerceptualOptions`.
        chosen: (G, K), indices of the features that count.
        mean: (G, K), their means.
        precision: (G, K), the inverses of their variances.
    """
    rewards: Doubles = _log_densities(features[:, chosen], density, mean, precision).mean(-1)
    return rewards


def step_progress(features: Doubles, density: str, means: Doubles, variances: Doubles) -> Doubles:
    """Return the expected step (n,) of scaled observations (n, K), -1 for the first and 0 for the last of G steps.

    Args:
        features: scaled observations.
        density: see :class:`.PerceptualOptions`.
        means: (G, K), the means of each step.
        variances: (G, K), the variances of each step.
    """
    logs = (_log_densities(features[:, None], density, means, 1 / variances) - 0.5 * np.log(variances)).sum(-1)
    likelihoods = np.exp(logs - logs.max(1, keepdims=True))
    progress: Doubles = likelihoods @ np.linspace(-1, 0, len(means)) / likelihoods.sum(1)
    return progress


def step_distance(features: Doubles, means: Doubles, variances: Doubles) -> Doubles:
    """Return the mean squared distance (n,), in deviations, of scaled observations (n, K) from the nearest of G steps.

    Args:
        features: scaled observations.
        means: (G, K), the means of each step.
        variances: (G, K), the variances of each step.
    """
    distances: Doubles = ((features[:, None] - means) ** 2 / variances).mean(-1)
    nearest: Doubles = distances.min(1)
    return nearest


def _log_densities(features: Doubles, density: str, mean: Doubles, precision: Doubles) -> Doubles:
    """Return the log density of each feature, 0 at its mean."""
    distance = (features - mean) ** 2 * precision
    logs: Doubles = -0.5 * distance if density == "gaussian" else -np.log1p(distance)
    return logs

"""Statistics of few runs: interquartile means, bootstrap intervals, censored steps to a threshold.

Scores are float arrays ``(..., runs, tasks)``: the last two axes are pooled and resampled, leading axes (points of a
curve) are kept. A single task is an axis of length 1. With fewer than five runs, the coverage of the bootstrap
intervals is below their confidence level, so report the number of runs.

Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import DataError, generator, require

Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""A function from scores (..., runs, tasks) to an array (...)."""


@dataclass(frozen=True, slots=True)
class Proportion:
    """A fraction of successes with its Wilson interval.

    Attributes:
        value: successes / episodes.
        low: lower end of the 95 % interval.
        high: upper end of the 95 % interval.
        episodes: number of trials.
    """

    value: float
    low: float
    high: float
    episodes: int

    @classmethod
    def of(cls, successes: int, episodes: int) -> "Proportion":
        """Return the proportion of ``successes`` among ``episodes``."""
        low, high = wilson_interval(successes, episodes)
        return cls(successes / episodes, low, high, episodes)

    def __str__(self) -> str:
        return f"{100 * self.value:.0f} % (95 % interval {100 * self.low:.0f} to {100 * self.high:.0f} %)"


@dataclass(frozen=True, slots=True)
class Interval:
    """A statistic with its bootstrap interval; arrays (...), which have no axes for a single number."""

    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def wilson_interval(successes: int, episodes: int) -> tuple[float, float]:
    """Return the 95 % score interval of a binomial proportion in closed form (Wilson 1927).

    Unlike the normal approximation, its width is not 0 at 0 or 100 %: 100 of 100 gives [0.963, 1].

    Raises:
        ConfigError: if ``episodes`` is not positive or ``successes`` is not in [0, episodes].
    """
    require(episodes > 0, "episodes", "positive", episodes)
    require(0 <= successes <= episodes, "successes", f"in [0, {episodes}]", successes)
    z = NormalDist().inv_cdf(0.975)
    fraction, spread = successes / episodes, z * z / episodes
    centre = fraction + spread / 2
    half = z * math.sqrt(fraction * (1 - fraction) / episodes + spread / (4 * episodes))
    # The ends 0 and 1 are exact in real arithmetic, but would be off by rounding errors of about 1e-17.
    low = 0.0 if successes == 0 else (centre - half) / (1 + spread)
    high = 1.0 if successes == episodes else (centre + half) / (1 + spread)
    return low, high


def interquartile_mean(scores: ArrayLike) -> NDArray[np.float64]:
    """Return the mean of the middle half of all runs and tasks, (..., runs, tasks) -> (...).

    A quarter of the scores, rounded down, is removed at each end. With three runs of one task the result is therefore
    the mean. If an infinite score is not removed, the result is infinite.
    """
    array = _checked(scores)
    pooled = array.reshape(*array.shape[:-2], -1)
    count = pooled.shape[-1]
    cut = count // 4
    middle: NDArray[np.float64] = np.sort(pooled, axis=-1)[..., cut : count - cut].mean(axis=-1)
    return middle


def bootstrap_interval(
    statistic: Statistic, scores: ArrayLike, repetitions: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> Interval:
    """Return ``statistic(scores)`` with its stratified percentile bootstrap interval.

    Runs are drawn with replacement within each task; all points of a curve are resampled together. The interval of a
    curve is pointwise.

    Args:
        statistic: reduces the last two axes of arrays (..., repetitions, runs, tasks).
        scores: (..., runs, tasks).
        repetitions: number of bootstrap samples; 2,000 are enough for curves, use 50,000 for a headline figure.
        confidence: confidence level of the interval.
        seed: seed of the resampling.

    Raises:
        DataError: if the array has fewer than two axes, is empty or holds NaN.
    """
    array = _checked(scores)
    runs, tasks = array.shape[-2:]
    rng = generator(seed, "bootstrap")
    # Limit the memory of resampled scores to about 16 MB.
    block = max(1, min(repetitions, 2_000_000 // array.size))
    samples = []
    for start in range(0, repetitions, block):
        index = rng.integers(runs, size=(min(block, repetitions - start), runs, tasks))
        samples.append(statistic(array[..., index, np.arange(tasks)]))
    tail = (1 - confidence) / 2
    # No interpolation between order statistics, so that infinite samples (thresholds never reached) stay infinite.
    low, high = np.quantile(np.concatenate(samples, axis=-1), [tail, 1 - tail], axis=-1, method="closest_observation")
    return Interval(np.asarray(statistic(array)), np.asarray(low), np.asarray(high))


def align_curves(
    curves: Sequence[tuple[ArrayLike, ArrayLike]], points: int = 200
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Align the curves of several runs on one grid; return its steps (p,) and the values (p, runs, 1).

    The grid is the union of all steps in the range that every run covers, thinned to at most ``points``. Between two
    evaluations a run keeps the value of the earlier one, so that no value depends on later evaluations. Steps that some
    run did not reach are left out, so that the curve does not represent only the longest runs.

    Args:
        curves: for each run its steps (k,), increasing, and values (k,).
        points: upper bound of the number of grid points.

    Raises:
        DataError: if there is no curve, or a curve is empty, not increasing, or holds NaN.
    """
    if not curves:
        raise DataError("expected at least one curve, got none")
    pairs = [(np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64)) for steps, values in curves]
    for index, (steps, values) in enumerate(pairs):
        if steps.ndim != 1 or steps.shape != values.shape or steps.size == 0:
            raise DataError(f"curve {index}: expected as many steps as values, got {steps.shape} and {values.shape}")
        if np.any(np.diff(steps) <= 0) or not np.isfinite(steps).all() or np.isnan(values).any():
            raise DataError(f"curve {index}: expected finite increasing steps and values without NaN")
    first, last = max(steps[0] for steps, _ in pairs), min(steps[-1] for steps, _ in pairs)
    grid = np.unique(np.concatenate([steps for steps, _ in pairs]))
    grid = grid[(grid >= first) & (grid <= last)]
    if grid.size > points:
        grid = grid[np.unique(np.linspace(0, grid.size - 1, points).round().astype(int))]
    sampled = [values[np.searchsorted(steps, grid, side="right") - 1] for steps, values in pairs]
    return grid, np.stack(sampled, axis=-1)[..., None]


@dataclass(frozen=True, slots=True)
class ThresholdSteps:
    """Steps until runs first reached a threshold, including runs that never reached it.

    Attributes:
        runs: number of runs.
        reached: number of runs that reached the threshold.
        value: interquartile mean of the steps; a run that never reached the threshold counts as infinite.
        low: lower end of the bootstrap 95 % interval.
        high: upper end; infinite if the data do not bound it.
        at_least: interquartile mean if all other runs had reached the threshold at their end: a lower bound if
            ``value`` is infinite.
    """

    runs: int
    reached: int
    value: float
    low: float
    high: float
    at_least: float

    def describe(self, scale: float = 1.0) -> str:
        """Return text such as ``4,200 [3,800, 5,100]`` or ``> 6,000 (2 of 3 runs)``; values times ``scale``."""
        count = "" if self.runs in (1, self.reached) else f" ({self.reached} of {self.runs} runs)"
        if math.isinf(self.value):
            return f"> {_number(self.at_least * scale)}{count}"
        if self.runs == 1:
            return _number(self.value * scale)
        high = "∞" if math.isinf(self.high) else _number(self.high * scale)
        return f"{_number(self.value * scale)} [{_number(self.low * scale)}, {high}]{count}"


def steps_to_threshold(reached: Sequence[float | None], horizons: Sequence[float]) -> ThresholdSteps:
    """Summarise the steps at which runs first reached a threshold, including runs that never did (censored).

    An agent would look better than it is if such runs were left out, or if their length counted as their result. Here
    such a run counts as infinite; like any other run, it may be removed by the interquartile mean.

    Args:
        reached: first step of each run at the threshold, or None.
        horizons: number of steps of each run.

    Raises:
        DataError: if there are no runs or the lengths differ.
    """
    if not reached or len(reached) != len(horizons):
        raise DataError(f"expected one horizon for each run, got {len(reached)} runs and {len(horizons)} horizons")
    steps = np.array([math.inf if step is None else step for step in reached], dtype=np.float64)[:, None]
    bounded = np.where(np.isinf(steps), np.asarray(horizons, dtype=np.float64)[:, None], steps)
    interval = bootstrap_interval(interquartile_mean, steps)
    return ThresholdSteps(
        runs=len(reached),
        reached=int(np.isfinite(steps).sum()),
        value=float(interval.value),
        low=float(interval.low),
        high=float(interval.high),
        at_least=float(interquartile_mean(bounded)),
    )


def _number(value: float) -> str:
    if math.isinf(value):
        return "∞"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _checked(scores: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim < 2 or array.size == 0:
        raise DataError(f"expected scores of shape (..., runs, tasks), got shape {array.shape}")
    if np.isnan(array).any():
        raise DataError("expected scores without NaN; leave out or repeat the runs that have no score")
    return array

"""Statistics of few runs: interquartile means, bootstrap intervals, censored steps to a threshold.

Scores are float arrays ``(..., runs, tasks)``: the last two axes are what is pooled and resampled, leading axes
(points of a curve) are kept. One task is an axis of length 1. With fewer than five runs the bootstrap intervals
cover less than they claim; say how many runs there were.

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
    """A share of successes with its Wilson interval.

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


@dataclass(frozen=True, slots=True)
class Interval:
    """A statistic with its bootstrap interval; arrays (...) or, for one number, zero-dimensional arrays."""

    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def wilson_interval(successes: int, episodes: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the score interval of a binomial proportion in closed form (Wilson 1927).

    Unlike the normal approximation it is not empty at 0 or 100 %: 100 of 100 gives [0.963, 1].

    Raises:
        ConfigError: if ``episodes`` is not positive or ``successes`` is not in [0, episodes].
    """
    require(episodes > 0, "episodes", "positive", episodes)
    require(0 <= successes <= episodes, "successes", f"in [0, {episodes}]", successes)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share, spread = successes / episodes, z * z / episodes
    centre = share + spread / 2
    half = z * math.sqrt(share * (1 - share) / episodes + spread / (4 * episodes))
    # The ends at 0 and 1 are exact in real arithmetic; rounding would leave 1e-17 there.
    low = 0.0 if successes == 0 else (centre - half) / (1 + spread)
    high = 1.0 if successes == episodes else (centre + half) / (1 + spread)
    return low, high


def interquartile_mean(scores: ArrayLike) -> NDArray[np.float64]:
    """Return the mean of the middle half of all runs and tasks, (..., runs, tasks) -> (...).

    A quarter of the scores, rounded down, is cut at each end: with three runs of one task it is the mean. Where
    an infinite score is not cut, the result is infinite.
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
        statistic: sees arrays (..., repetitions, runs, tasks) and reduces the last two axes.
        scores: (..., runs, tasks).
        repetitions: bootstrap samples; curves do well with 2,000, a headline figure deserves 50,000.
        confidence: probability that the interval is meant to cover.
        seed: seed of the resampling.

    Raises:
        DataError: if the array has fewer than two axes, is empty or holds NaN.
    """
    array = _checked(scores)
    runs, tasks = array.shape[-2:]
    rng = generator(seed, "bootstrap")
    # Memory: at most about 16 MB of resampled scores at a time.
    block = max(1, min(repetitions, 2_000_000 // array.size))
    samples = []
    for start in range(0, repetitions, block):
        index = rng.integers(runs, size=(min(block, repetitions - start), runs, tasks))
        samples.append(statistic(array[..., index, np.arange(tasks)]))
    tail = (1 - confidence) / 2
    # An order statistic and no interpolation between two: infinite samples (runs that never arrived) stay infinite.
    low, high = np.quantile(np.concatenate(samples, axis=-1), [tail, 1 - tail], axis=-1, method="closest_observation")
    return Interval(np.asarray(statistic(array)), np.asarray(low), np.asarray(high))


def align_curves(
    curves: Sequence[tuple[ArrayLike, ArrayLike]], points: int = 200
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bring curves of several runs on one grid of steps: steps (p,) and values (p, runs, 1).

    The grid is the union of all steps that every run covers, thinned to at most ``points``. Between two
    evaluations a run keeps the value of the earlier one: nothing is read off from its future. Steps that some run
    did not reach are left out, so that the survivors do not speak for all.

    Args:
        curves: for each run its steps (k,), increasing, and values (k,).
        points: upper bound of the number of grid points.

    Raises:
        DataError: if there is no curve, one is empty, not increasing, or holds NaN.
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
    held = [values[np.searchsorted(steps, grid, side="right") - 1] for steps, values in pairs]
    return grid, np.stack(held, axis=-1)[..., None]


@dataclass(frozen=True, slots=True)
class ThresholdSteps:
    """Steps until runs first reached a threshold, with the runs that never did counted, not dropped.

    Attributes:
        runs: number of runs.
        reached: how many of them reached the threshold.
        value: interquartile mean of the steps, where a run that never arrived counts as infinite.
        low: lower end of the bootstrap 95 % interval.
        high: upper end; infinite where the data do not bound it.
        at_least: interquartile mean if every other run had arrived as it ended: what is certain where ``value``
            is infinite.
    """

    runs: int
    reached: int
    value: float
    low: float
    high: float
    at_least: float

    def describe(self, scale: float = 1.0) -> str:
        """Return text such as ``4,200 [3,800, 5,100]`` or ``> 6,000 (2 of 3 runs)``; values times ``scale``."""
        share = "" if self.runs in (1, self.reached) else f" ({self.reached} of {self.runs} runs)"
        if math.isinf(self.value):
            return f"> {_number(self.at_least * scale)}{share}"
        if self.runs == 1:
            return _number(self.value * scale)
        high = "∞" if math.isinf(self.high) else _number(self.high * scale)
        return f"{_number(self.value * scale)} [{_number(self.low * scale)}, {high}]{share}"


def steps_to_threshold(reached: Sequence[float | None], horizons: Sequence[float], seed: int = 0) -> ThresholdSteps:
    """Summarise the steps at which runs first reached a threshold; some never did (censored).

    Dropping the runs that never arrived, or counting their length as their result, makes a learner look better
    than it is. Here such a run counts as infinite: it may be cut by the interquartile mean, as any other run.

    Args:
        reached: for each run its first step at the threshold, or None.
        horizons: for each run the number of steps it made.
        seed: seed of the bootstrap.

    Raises:
        DataError: if there is no run or the lengths differ.
    """
    if not reached or len(reached) != len(horizons):
        raise DataError(f"expected one horizon for each run, got {len(reached)} runs and {len(horizons)} horizons")
    steps = np.array([math.inf if step is None else step for step in reached], dtype=np.float64)[:, None]
    bounded = np.where(np.isinf(steps), np.asarray(horizons, dtype=np.float64)[:, None], steps)
    interval = bootstrap_interval(interquartile_mean, steps, seed=seed)
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

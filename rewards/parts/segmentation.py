"""Segmentation of demonstrations into steps: by minimum variance (Sermanet et al. 2017), or all of them jointly."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError

Doubles = NDArray[np.float64]


def segment_costs(features: Doubles) -> Doubles:
    """Return the cost (T + 1, T + 1) of each segment of a trajectory.

    Element (i, j) is the standard deviation over rows i to j - 1, averaged over features; infinite unless i < j.

    Args:
        features: (T, F).
    """
    steps = len(features)
    centred = features - features.mean(0)  # avoids cancellation in the difference of squares below
    sums = np.concatenate((np.zeros((1, features.shape[1])), np.cumsum(centred, axis=0)))
    squares = np.concatenate((np.zeros((1, features.shape[1])), np.cumsum(centred**2, axis=0)))
    costs = np.full((steps + 1, steps + 1), np.inf)
    for begin in range(steps):
        length = np.arange(1, steps - begin + 1)[:, None]
        mean = (sums[begin + 1 :] - sums[begin]) / length
        variance = (squares[begin + 1 :] - squares[begin]) / length - mean**2
        costs[begin, begin + 1 :] = np.sqrt(np.maximum(variance, 0)).mean(1)
    return costs


def segment(features: Doubles, segments: int, min_length: int = 1) -> list[int]:
    """Cut a trajectory into the segments with the smallest mean cost; return the first row of each, starting with 0.

    The mean is over segments and not weighted by their lengths, as published. The minimum is exact, whereas the paper
    splits recursively.

    Args:
        features: (T, F).
        segments: number of segments.
        min_length: smallest number of rows of a segment.

    Raises:
        DataError: if the trajectory is too short.
    """
    return cheapest_cuts([segment_costs(features)] * segments, min_length)


def segment_jointly(trajectories: Sequence[Doubles], segments: int, min_length: int = 1) -> list[list[int]]:
    """Cut trajectories into common segments; return the first rows of the segments of each, starting with 0.

    Segmental k-means (Juang and Rabiner 1990) minimises the sum of squared distances of rows to the mean of their
    segment, which is over all trajectories. It starts from segments of equal lengths, and alternates between computing
    means and cutting until the sum no longer falls. The result is a local minimum; each cut is exact.

    Args:
        trajectories: (T, F) each; T may differ.
        segments: number of segments.
        min_length: smallest number of rows of a segment in each trajectory.

    Raises:
        DataError: if a trajectory is too short.
    """
    for rows in trajectories:
        _require_length(len(rows), segments, min_length)
    all_rows = np.concatenate(trajectories)
    begins = [[len(rows) * segment // segments for segment in range(segments)] for rows in trajectories]
    best_total = np.inf
    while True:
        label = np.concatenate([segment_labels(*item) for item in zip(begins, map(len, trajectories), strict=True)])
        means = np.stack([all_rows[label == segment].mean(0) for segment in range(segments)])
        new_begins, total = [], 0.0
        for rows in trajectories:
            distances = ((rows[:, None] - means) ** 2).sum(-1)
            sums = np.concatenate((np.zeros((1, segments)), distances.cumsum(0)))
            cuts = cheapest_cuts([np.subtract.outer(item, item).T for item in sums.T], min_length)
            new_begins.append(cuts)
            total += float(distances[np.arange(len(rows)), segment_labels(cuts, len(rows))].sum())
        if not total < best_total:
            return begins
        begins, best_total = new_begins, total


def segment_labels(begins: Sequence[int], steps: int) -> NDArray[np.int64]:
    """Return the number of the segment (steps,) of each row of a trajectory, given the first row of each segment."""
    labels: NDArray[np.int64] = np.searchsorted(begins, np.arange(steps), side="right") - 1
    return labels


def cheapest_cuts(costs: Sequence[Doubles], min_length: int) -> list[int]:
    """Return the first row of each segment of a trajectory of T rows, starting with 0, at the smallest total cost.

    Exact dynamic programming over the number of segments and the end of the last one, O(segments T^2). If several
    solutions cost the same, the earliest cuts win.

    Args:
        costs: (T + 1, T + 1) for each segment: element (i, j) is its cost if it consists of rows i to j - 1.
        min_length: smallest number of rows of a segment.

    Raises:
        DataError: if the trajectory is too short.
    """
    steps, segments = len(costs[0]) - 1, len(costs)
    _require_length(steps, segments, min_length)
    too_short = np.subtract.outer(np.arange(steps + 1), np.arange(steps + 1)) > -min_length
    first, *next_costs = (np.where(too_short, np.inf, cost_table) for cost_table in costs)
    best = first[0]
    begins = []
    for cost in next_costs:
        candidates = best[:, None] + cost  # (begin of the last segment, end of it)
        begins.append(candidates.argmin(0))
        best = candidates.min(0)
    cuts, end = [], steps
    for choice in reversed(begins):
        end = int(choice[end])
        cuts.append(end)
    return [0, *reversed(cuts)]


def _require_length(steps: int, segments: int, min_length: int) -> None:
    if steps < segments * min_length:
        raise DataError(f"a trajectory of {steps} observations has no {segments} steps of {min_length} or more")

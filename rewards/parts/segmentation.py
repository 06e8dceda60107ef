"""Steps of demonstrations: minimum-variance segmentation of each (Sermanet et al. 2017), or of all of them together."""

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
    centred = features - features.mean(0)  # so that the difference of squares below loses no digits
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
    """Cut a trajectory into the segments of the least mean cost; return where each begins, the first at 0.

    The mean is over segments, not weighed by their lengths, as published; the minimum is exact, where the paper splits
    recursively.

    Args:
        features: (T, F).
        segments: how many.
        min_length: least number of rows of each.

    Raises:
        DataError: if the trajectory is too short.
    """
    return cheapest_cuts([segment_costs(features)] * segments, min_length)


def segment_jointly(trajectories: Sequence[Doubles], segments: int, min_length: int = 1) -> list[list[int]]:
    """Cut trajectories into segments that they have in common; return where those of each begin, the first at 0.

    Segmental k-means (Juang and Rabiner 1990): the sum of squared distances of rows to the mean of their segment, which
    is over all trajectories, is lowered by taking means and cutting anew in turns, from segments of equal lengths,
    until it stays. That is a local minimum; each cut is exact.

    Args:
        trajectories: (T, F) each; T may differ.
        segments: how many.
        min_length: least number of rows of each in each trajectory.

    Raises:
        DataError: if a trajectory is too short.
    """
    for rows in trajectories:
        _require_length(len(rows), segments, min_length)
    everything = np.concatenate(trajectories)
    begins = [[len(rows) * segment // segments for segment in range(segments)] for rows in trajectories]
    least = np.inf
    while True:
        label = np.concatenate([segment_labels(*each) for each in zip(begins, map(len, trajectories), strict=True)])
        means = np.stack([everything[label == segment].mean(0) for segment in range(segments)])
        found, total = [], 0.0
        for rows in trajectories:
            distances = ((rows[:, None] - means) ** 2).sum(-1)
            sums = np.concatenate((np.zeros((1, segments)), distances.cumsum(0)))
            cuts = cheapest_cuts([np.subtract.outer(each, each).T for each in sums.T], min_length)
            found.append(cuts)
            total += float(distances[np.arange(len(rows)), segment_labels(cuts, len(rows))].sum())
        if not total < least:
            return begins
        begins, least = found, total


def segment_labels(begins: Sequence[int], steps: int) -> NDArray[np.int64]:
    """Return the number of the segment (steps,) that each row of a trajectory is in, from where segments begin."""
    found: NDArray[np.int64] = np.searchsorted(begins, np.arange(steps), side="right") - 1
    return found


def cheapest_cuts(costs: Sequence[Doubles], min_length: int) -> list[int]:
    """Return where each segment of a trajectory of T rows begins, the first at 0, such that their costs sum to least.

    Dynamic programme over the number of segments and where the last of them ends: O(segments T^2), exact. Of equals the
    earliest cuts win.

    Args:
        costs: of each segment (T + 1, T + 1): element (i, j), if it is rows i to j - 1.
        min_length: least number of rows of each.

    Raises:
        DataError: if the trajectory is too short.
    """
    steps, segments = len(costs[0]) - 1, len(costs)
    _require_length(steps, segments, min_length)
    too_short = np.subtract.outer(np.arange(steps + 1), np.arange(steps + 1)) > -min_length
    first, *others = (np.where(too_short, np.inf, each) for each in costs)
    best = first[0]
    begins = []
    for cost in others:
        candidates = best[:, None] + cost  # (where the last segment begins, where it ends)
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

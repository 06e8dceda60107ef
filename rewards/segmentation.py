"""Steps of a demonstration: minimum-variance segmentation, exactly (Sermanet et al. 2017, who split recursively)."""

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

    The mean is over segments, not weighed by their lengths, as published. Dynamic programme over the number of
    segments and where the last of them ends: O(segments T^2), exact. Of equals the earliest cuts win.

    Args:
        features: (T, F).
        segments: how many.
        min_length: least number of rows of each.

    Raises:
        DataError: if the trajectory is too short.
    """
    steps = len(features)
    if steps < segments * min_length:
        raise DataError(f"a trajectory of {steps} observations has no {segments} steps of {min_length} or more")
    costs = segment_costs(features)
    costs[np.subtract.outer(np.arange(steps + 1), np.arange(steps + 1)) > -min_length] = np.inf
    best = costs[0]
    begins = []
    for _ in range(segments - 1):
        candidates = best[:, None] + costs  # (where the last segment begins, where it ends)
        begins.append(candidates.argmin(0))
        best = candidates.min(0)
    cuts, end = [], steps
    for choice in reversed(begins):
        end = int(choice[end])
        cuts.append(end)
    return [0, *reversed(cuts)]

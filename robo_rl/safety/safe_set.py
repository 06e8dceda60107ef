"""A safe set learned from few demonstrations: states similar to those that the demonstrations passed through.

For "Safe RL with minimal supervision" (Quessy et al. 2025): no one labels what is dangerous. A state is as safe as it
is near to the states of demonstrations. A feasibility value then learns, from unlabelled data, from which states a
robot can stay near them indefinitely. The paper's own formulas were not available; those here are this
project's.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from robo_rl.core import DataError

Floats = NDArray[np.float32]

ROWS = 4096
"""Number of states whose distances are computed at once."""


class SafeSet:
    """States near demonstrated ones.

    Distances are Euclidean, of elements divided by their standard deviation over the demonstrations. An element whose
    standard deviation is below ``still`` is divided by ``still`` instead, so it counts once it changes.

    Args:
        demonstrations: states (L + 1, S) of each demonstration, two or more.
        reach: a state is safe up to this multiple of the distance within which nine in ten demonstrated states have a
            neighbour in another demonstration.
        still: smallest divisor, in the elements' units.

    Raises:
        DataError: if there are fewer than two demonstrations, they do not differ, or are not finite.
    """

    def __init__(self, demonstrations: Sequence[Floats], reach: float, still: float) -> None:
        if len(demonstrations) < 2:
            raise DataError(f"a safe set takes two demonstrations or more, got {len(demonstrations)}")
        demonstrated = np.concatenate(demonstrations)
        self._scale = np.maximum(demonstrated.std(0), still).astype(np.float32)
        self._states = demonstrated / self._scale
        apart = []
        for number, states in enumerate(demonstrations):
            others = np.concatenate(
                [demonstration for other, demonstration in enumerate(demonstrations) if other != number]
            )
            apart.append(_distances(states / self._scale, others / self._scale))
        self._radius = reach * float(np.quantile(np.concatenate(apart), 0.9))
        if not 0 < self._radius < np.inf:
            raise DataError(
                f"nine in ten demonstrated states have a neighbour in another demonstration at distance "
                f"{self._radius / reach:g}, from which nothing follows: give demonstrations that are no copies of each "
                "other, and whose numbers are finite"
            )

    def cost(self, states: Floats) -> Floats:
        """Return how far states (n, S) are outside (n,), in radii: -1 at a demonstrated state, 0 on the border."""
        return _distances(states / self._scale, self._states) / np.float32(self._radius) - np.float32(1)


def _distances(states: Floats, others: Floats) -> Floats:
    """Return the distance (n,) of each of ``states`` (n, S) from the nearest of ``others`` (m, S)."""
    # A matrix product would be faster, but would put equal states some hundredths apart.
    candidates, exact = torch.from_numpy(others), "donot_use_mm_for_euclid_dist"
    split = torch.split(torch.from_numpy(states), ROWS)
    parts = [torch.cdist(rows, candidates, compute_mode=exact).amin(1) for rows in split]
    return np.asarray(torch.cat(parts).numpy(), np.float32)

"""What is safe, learned from few demonstrations: states like those that they went through.

For "Safe RL with minimal supervision" (Quessy et al. 2025): nobody says what is dangerous. A state is as safe as it is
near to what demonstrations went through; from which states a robot can stay near them for good, a feasibility value
then learns from data that nobody had to label. The paper's own formulas were not at hand; these are ours.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from robo_rl.core import DataError

Floats = NDArray[np.float32]

ROWS = 4096
"""States whose distances are computed at once."""


class SafeSet:
    """States near to demonstrated ones.

    Distances are Euclidean, of elements divided by their standard deviation over the demonstrations. One that does not
    change by more than ``still`` in them is divided by ``still``: it counts once it changes.

    Args:
        demonstrations: states (L + 1, S) of each, two or more.
        reach: a state is safe up to so many times the distance at which nine in ten demonstrated states have a
            neighbour in another demonstration.
        still: least divisor, in the elements' units.

    Raises:
        DataError: if there are fewer than two demonstrations, they do not differ, or are not finite.
    """

    def __init__(self, demonstrations: Sequence[Floats], reach: float, still: float) -> None:
        if len(demonstrations) < 2:
            raise DataError(f"a safe set takes two demonstrations or more, got {len(demonstrations)}")
        everything = np.concatenate(demonstrations)
        self._scale = np.maximum(everything.std(0), still).astype(np.float32)
        self._states = everything / self._scale
        apart = []
        for number, states in enumerate(demonstrations):
            others = np.concatenate([each for other, each in enumerate(demonstrations) if other != number])
            apart.append(_distances(states / self._scale, others / self._scale))
        self._radius = reach * float(np.quantile(np.concatenate(apart), 0.9))
        if not 0 < self._radius < np.inf:
            raise DataError(
                f"nine in ten demonstrated states have a neighbour in another demonstration at distance "
                f"{self._radius / reach:g}, from which nothing follows: give demonstrations that are no copies of each "
                "other, and whose numbers are finite"
            )

    def cost(self, states: Floats) -> Floats:
        """Return how far states (n, S) are outside (n,): -1 where demonstrated itself, 0 on the border, in radii."""
        return _distances(states / self._scale, self._states) / np.float32(self._radius) - np.float32(1)


def _distances(states: Floats, others: Floats) -> Floats:
    """Return the distance of each of ``states`` (n, S) from the nearest of ``others`` (m, S) (n,)."""
    # By a matrix product it would be faster, and equal states some hundredths apart.
    known, exact = torch.from_numpy(others), "donot_use_mm_for_euclid_dist"
    split = torch.split(torch.from_numpy(states), ROWS)
    parts = [torch.cdist(rows, known, compute_mode=exact).amin(1) for rows in split]
    return np.asarray(torch.cat(parts).numpy(), np.float32)

"""The magnitude of returns, by which rewards are divided for critics with bins.

The returns are the discounted sums G of the rewards of an episode so far, G <- gamma G + r. With their variance and
their largest magnitude, the scale is max(sqrt(Var G), max |G| / 5), so that scaled returns vary by about 1 and none
exceeds 5, the end of the bins (Lee et al. 2025; Palenicek et al. 2026 use the first term alone).
"""

import math
from collections.abc import Iterable

import torch

EPSILON = 1e-8
"""Added to the variance."""


class ReturnStatistics:
    """Running statistics of returns.

    Attributes:
        values: (4,) float64: number of returns, their mean, the sum of squared differences from it, and the largest
            magnitude.
    """

    def __init__(self) -> None:
        self.values = torch.zeros(4, dtype=torch.float64)
        self._numbers = self.values.numpy()

    def note(self, returns: Iterable[float]) -> None:
        """Add returns (Welford 1962)."""
        count, mean, squares, largest = self._numbers.tolist()
        for each in returns:
            count += 1
            difference = each - mean
            mean += difference / count
            squares += difference * (each - mean)
            largest = max(largest, abs(each))
        self._numbers[:] = count, mean, squares, largest

    def scale(self, end: float) -> float:
        """Return the magnitude of returns, for bins up to ``end``; 1 before the first return."""
        count, _, squares, largest = self._numbers.tolist()
        return max(math.sqrt(squares / count + EPSILON), largest / end) if count else 1.0

"""Rank correlation, for how well a reward agrees with the truth."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Return the ranks (n,) of ``values`` (n,), from 0; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    shared: NDArray[np.float64] = (first + (counts - 1) / 2)[inverse]
    return shared


def rank_correlation(one: ArrayLike, other: ArrayLike) -> float | None:
    """Return Spearman's rank correlation in [-1, 1], or None where one of the two never changes."""
    a, b = (values - values.mean() for values in (ranks(one), ranks(other)))
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm else None

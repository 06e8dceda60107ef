"""Agreement of a reward with the truth: rank correlation, and calibration of a reward that is a probability."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Return the ranks (n,) of ``values`` (n,), from 0; equal values get the mean of their ranks."""
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    mean_ranks: NDArray[np.float64] = (first + (counts - 1) / 2)[inverse]
    return mean_ranks


def rank_correlation(one: ArrayLike, other: ArrayLike) -> float | None:
    """Return Spearman's rank correlation in [-1, 1], or None if one of the two is constant."""
    a, b = (values - values.mean() for values in (ranks(one), ranks(other)))
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm else None


def calibration_error(probabilities: ArrayLike, happened: ArrayLike) -> float | None:
    """Return the expected calibration error (Naeini et al. 2015), in [0, 1].

    It is the mean, over cases, of the distance between the mean probability and the observed frequency in the bin of
    the case, of ten of equal width. It is 0 if events with predicted probability p occur with frequency p.

    Args:
        probabilities: (n,) predicted probabilities of n cases, 1 or more.
        happened: (n,) outcomes, 0 or 1.

    Returns:
        The error; None if a value is outside [0, 1] and hence not a probability.
    """
    predicted, outcomes = np.asarray(probabilities, dtype=np.float64), np.asarray(happened, dtype=np.float64)
    if predicted.min() < 0 or predicted.max() > 1:
        return None
    bin_of = np.minimum((predicted * 10).astype(np.int64), 9)
    gaps = np.bincount(bin_of, weights=predicted - outcomes, minlength=10)
    return float(np.abs(gaps).sum() / len(predicted))

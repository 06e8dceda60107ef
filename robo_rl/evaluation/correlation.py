"""How well a reward agrees with the truth: rank correlation, and the calibration of one that is a probability."""

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


def calibration_error(probabilities: ArrayLike, happened: ArrayLike, bins: int = 10) -> float | None:
    """Return the expected calibration error (Naeini et al. 2015), in [0, 1].

    It is 0 where what is said with probability p is so in a share p of the cases: the mean, over cases, of the distance
    between the mean probability and the share in the case's bin.

    Args:
        probabilities: (n,) of n cases, 1 or more.
        happened: (n,) 0 or 1.
        bins: number of bins, of equal width.

    Returns:
        The error; None where a value is outside [0, 1] and so no probability.
    """
    said, so = np.asarray(probabilities, dtype=np.float64), np.asarray(happened, dtype=np.float64)
    if said.min() < 0 or said.max() > 1:
        return None
    bin_of = np.minimum((said * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(bin_of, weights=said - so, minlength=bins)
    return float(np.abs(gaps).sum() / len(said))

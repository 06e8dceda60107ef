"""Normalisation statistics of a data set: minimum, maximum, mean, standard deviation, quantiles, by feature."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Statistics = dict[str, dict[str, NDArray[np.float64] | NDArray[np.int64]]]

QUANTILES = (0.01, 0.10, 0.50, 0.90, 0.99)


class FeatureStatistics:
    """Exact statistics of features over all added rows.

    All vectors are kept in memory; for images, a histogram of the 256 values of each channel is sufficient.
    """

    def __init__(self) -> None:
        self._vectors: dict[str, list[NDArray[np.float64]]] = {}
        self._histograms: dict[str, NDArray[np.int64]] = {}
        self._images: dict[str, int] = {}

    def add(self, features: Mapping[str, NDArray[np.generic]]) -> None:
        """Add rows: vectors (n, A) and scalars (n,) of numbers, and images (n, height, width, channels) uint8."""
        for name, rows in features.items():
            if rows.ndim == 4:
                counts = np.stack([np.bincount(channel.ravel(), minlength=256) for channel in np.moveaxis(rows, 3, 0)])
                self._histograms[name] = self._histograms.get(name, 0) + counts
                self._images[name] = self._images.get(name, 0) + len(rows)
            else:
                self._vectors.setdefault(name, []).append(rows.reshape(len(rows), -1).astype(np.float64))

    def merge(self, other: "FeatureStatistics") -> None:
        """Add all rows of ``other``."""
        for name, parts in other._vectors.items():
            self._vectors.setdefault(name, []).extend(parts)
        for name, counts in other._histograms.items():
            self._histograms[name] = self._histograms.get(name, 0) + counts
            self._images[name] = self._images.get(name, 0) + other._images[name]

    def result(self) -> Statistics:
        """Return ``min``, ``max``, ``mean``, ``std``, ``count`` (rows) and ``q01`` to ``q99`` of each feature.

        Statistics of vectors have shape (A,); those of images have shape (channels, 1, 1), with pixels in [0, 1].
        """
        return {name: _of_rows(np.concatenate(parts)) for name, parts in self._vectors.items()} | {
            name: _of_histogram(counts, self._images[name]) for name, counts in self._histograms.items()
        }


def _of_rows(rows: NDArray[np.float64]) -> dict[str, NDArray[np.float64] | NDArray[np.int64]]:
    quantiles = np.quantile(rows, QUANTILES, axis=0, method="inverted_cdf")
    return {
        "min": rows.min(0),
        "max": rows.max(0),
        "mean": rows.mean(0),
        "std": rows.std(0),
        "count": np.array([len(rows)]),
        **dict(zip(_names(), quantiles, strict=True)),
    }


def _of_histogram(counts: NDArray[np.int64], images: int) -> dict[str, NDArray[np.float64] | NDArray[np.int64]]:
    values = np.arange(256) / 255
    frequencies = counts / counts.sum(1, keepdims=True)
    mean = frequencies @ values
    cumulative = counts.cumsum(1)
    bins = [(cumulative >= np.ceil(q * cumulative[:, -1:])).argmax(1) for q in QUANTILES]
    result = {
        "min": values[(counts > 0).argmax(1)],
        "max": values[255 - (counts[:, ::-1] > 0).argmax(1)],
        "mean": mean,
        "std": np.sqrt((frequencies * (values - mean[:, None]) ** 2).sum(1)),
        **{name: values[bin_indices] for name, bin_indices in zip(_names(), bins, strict=True)},
    }
    return {**{name: value[:, None, None] for name, value in result.items()}, "count": np.array([images])}


def _names() -> list[str]:
    return [f"q{round(100 * quantile):02d}" for quantile in QUANTILES]

"""Cache of image features, stored beside the images."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, FeatureExtractor, State

from .slots import Indices

CHUNK = 64
"""Number of images processed at a time, as a compromise between speed and memory."""


class FeatureCache:
    """Features that a :class:`FeatureExtractor` computes of the images in a buffer, once, when they are first read.

    Args:
        capacity: number of slots.
        extractor: computes the features.
    """

    def __init__(self, capacity: int, extractor: FeatureExtractor) -> None:
        self._extractor = extractor
        self._views = extractor.views
        self._arrays: dict[str, NDArray[Any]] = {
            key: np.zeros((capacity, extractor.views, *spec.shape), dtype=spec.dtype)
            for key, spec in extractor.spec.items()
        }
        self._is_computed = np.zeros(capacity, dtype=np.bool_)

    @property
    def keys(self) -> tuple[str, ...]:
        """Observation keys of the images that features replace."""
        return tuple(self._arrays)

    @property
    def spec(self) -> Mapping[str, ArraySpec]:
        """Specs of the features of one view, by key."""
        return self._extractor.spec

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the extractor, which identifies its features."""
        return self._extractor.fingerprint

    def forget(self, slot: int) -> None:
        """Discard the features of a slot, whose observation changes."""
        self._is_computed[slot] = False

    def clear(self) -> None:
        """Discard all features."""
        self._is_computed.fill(False)

    def compute(self, slots: Indices, images: Mapping[str, NDArray[Any]]) -> None:
        """Compute missing features of ``slots`` (any shape); ``images`` are the whole columns of the buffer by key."""
        missing = np.unique(slots[~self._is_computed[slots]])
        for begin in range(0, len(missing), CHUNK):
            chunk = missing[begin : begin + CHUNK]
            features = self._extractor({key: images[key][chunk] for key in self._arrays}, chunk)
            for key, array in self._arrays.items():
                array[chunk] = features[key]
        self._is_computed[missing] = True

    def rows(self, slots: Indices, rng: np.random.Generator | None) -> Indices:
        """Return the rows of :meth:`flat` to read: a random view of each of ``slots``, or the first without ``rng``."""
        view = 0 if rng is None else rng.integers(0, self._views, slots.shape, dtype=np.intp)
        return slots * self._views + view

    def flat(self, key: str) -> NDArray[Any]:
        """Return all views of all slots, (capacity * views, ...)."""
        array = self._arrays[key]
        return array.reshape(-1, *array.shape[2:])

    def columns(self) -> State:
        """Return the arrays that are part of the buffer's state."""
        return {f"features/{key}": array for key, array in self._arrays.items()} | {"features_known": self._is_computed}

"""Features of images, kept beside the images they were computed from."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, FeatureExtractor, State

from .slots import Indices

CHUNK = 64
"""Images computed at a time: enough to be fast, few enough to need little memory."""


class FeatureCache:
    """What a :class:`FeatureExtractor` makes of the images in the slots of a ring, computed once, when first read.

    Args:
        capacity: slots.
        extractor: computes the features.
    """

    def __init__(self, capacity: int, extractor: FeatureExtractor) -> None:
        self._extractor = extractor
        self._views = extractor.views
        self._arrays: dict[str, NDArray[Any]] = {
            key: np.zeros((capacity, extractor.views, *spec.shape), dtype=spec.dtype)
            for key, spec in extractor.spec.items()
        }
        self._known = np.zeros(capacity, dtype=np.bool_)

    @property
    def keys(self) -> tuple[str, ...]:
        """Observation keys of the images in whose place features are given."""
        return tuple(self._arrays)

    @property
    def spec(self) -> Mapping[str, ArraySpec]:
        """Specs of the features of one view, by key."""
        return self._extractor.spec

    @property
    def fingerprint(self) -> str:
        """Of the extractor: features of another are not these."""
        return self._extractor.fingerprint

    def forget(self, slot: int) -> None:
        """The slot holds another observation now."""
        self._known[slot] = False

    def clear(self) -> None:
        """Forget all."""
        self._known.fill(False)

    def compute(self, slots: Indices, images: Mapping[str, NDArray[Any]]) -> None:
        """Compute what is not known yet of ``slots`` (any shape); ``images`` are the whole columns of the ring."""
        missing = np.unique(slots[~self._known[slots]])
        for begin in range(0, len(missing), CHUNK):
            chunk = missing[begin : begin + CHUNK]
            found = self._extractor({key: images[key][chunk] for key in self._arrays}, chunk)
            for key, array in self._arrays.items():
                array[chunk] = found[key]
        self._known[missing] = True

    def rows(self, slots: Indices, rng: np.random.Generator | None) -> Indices:
        """Return where to read in :meth:`flat`: a random view of each of ``slots``, or the first without ``rng``."""
        view = 0 if rng is None else rng.integers(0, self._views, slots.shape, dtype=np.intp)
        return slots * self._views + view

    def flat(self, key: str) -> NDArray[Any]:
        """Return all views of all slots, (capacity * views, ...)."""
        array = self._arrays[key]
        return array.reshape(-1, *array.shape[2:])

    def columns(self) -> State:
        """Return the arrays that are part of the ring's state."""
        return {f"features/{key}": array for key, array in self._arrays.items()} | {"features_known": self._known}

"""Cache of the embeddings of frames, by their content."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import importing_extra

Floats = NDArray[np.float32]
Frames = NDArray[np.uint8]


class FrameCache:
    """Results of a function of frames, computed once for each content.

    Frames are identified by their width and a 128-bit hash (XXH3) of their bytes. The hash does not protect against
    deliberate collisions, which is not needed: a forged frame affects only its own embedding.

    Args:
        encode: returns a vector (E,) for each of n frames (n, H, W, 3); called only for frames that are not cached.
        size: E.
        capacity: number of frames in the cache, which drops the oldest; 0 for no cache.

    Attributes:
        encoded: number of frames passed to ``encode`` so far.

    Raises:
        ConfigError: if xxhash is not installed.
    """

    def __init__(self, encode: Callable[[Frames], Floats], size: int, capacity: int) -> None:
        with importing_extra("vision", "the frame cache needs xxhash"):
            from xxhash import xxh3_128_digest
        self._digest = xxh3_128_digest
        self._encode = encode
        self._vectors = np.zeros((capacity, size), dtype=np.float32)
        self._slots: dict[bytes, int] = {}
        self._keys: list[bytes | None] = [None] * capacity
        self._next = 0
        self.encoded = 0

    def __len__(self) -> int:
        """Return the number of cached frames."""
        return len(self._slots)

    def __call__(self, frames: Frames) -> Floats:
        """Return the vectors (n, E) of frames (n, H, W, 3)."""
        digest, width = self._digest, frames.shape[2]
        keys = [digest(frame, width) for frame in np.ascontiguousarray(frames)]
        try:
            return self._vectors[[self._slots[key] for key in keys]]
        except KeyError:
            pass  # not all frames are cached; the attempt makes the common case fast
        first = {key: row for row, key in reversed(list(enumerate(keys)))}
        missing = [key for key in dict.fromkeys(keys) if key not in self._slots]
        vectors = self._encode(frames[[first[key] for key in missing]])
        self.encoded += len(missing)
        positions = {key: position for position, key in enumerate(missing)}
        result = np.stack([
            vectors[positions[key]] if key in positions else self._vectors[self._slots[key]] for key in keys
        ])  # fmt: skip
        for key, vector in zip(missing, vectors, strict=True):
            self._keep(key, vector)
        return result

    def _keep(self, key: bytes, vector: Floats) -> None:
        """Store a vector, replacing the oldest."""
        if not self._keys:
            return
        oldest = self._keys[self._next]
        if oldest is not None:
            del self._slots[oldest]
        self._keys[self._next], self._slots[key] = key, self._next
        self._vectors[self._next] = vector
        self._next = (self._next + 1) % len(self._keys)

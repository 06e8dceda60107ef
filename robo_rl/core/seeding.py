"""Random generators, each derived from the run's seed and a path of names.

Streams do not share state. Adding a consumer of randomness to one part of a run leaves every other part unchanged,
and an indexed stream (by episode number, for example) needs no saved state to be resumed.
"""

import hashlib

import numpy as np


def derive_seed(seed: int, *path: str | int) -> int:
    """Return a 63-bit seed that depends on ``seed`` and every element of ``path``."""
    text = "/".join([str(seed), *map(str, path)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def generator(seed: int, *path: str | int) -> np.random.Generator:
    """Return an independent PCG64 generator for ``path`` under ``seed``."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, *path)))

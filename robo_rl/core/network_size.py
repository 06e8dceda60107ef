"""Limits on the size of networks, which a configuration states and anybody may have written.

Whoever makes a network calls :func:`claim_parameters` before it takes memory. Whoever reads a configuration says, by
:func:`networks_within`, how many parameters there may be.
"""

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from .errors import ConfigError, RoboRLError

BYTES = 16
"""Bytes of a parameter in training: its value, its gradient and two moments of Adam, in float32."""
PER_LAYER = 100
"""Parameters that a layer counts beside its own: many small ones take time and memory as well."""
SMALL = 1 << 20
"""Parameters that are made at once, whatever was stored."""


@dataclass
class _Limit:
    """Memory that networks may still take.

    Attributes:
        most: parameters that all networks may have.
        reason: why, for the message.
        error: class of the error.
        claimed: parameters so far.
    """

    most: int
    reason: str
    error: type[RoboRLError]
    claimed: int = 0

    def claim(self, count: int, name: str) -> None:
        self.claimed += count
        if self.claimed > self.most:
            raise self.error(
                f"the networks are too large: with {name!r} they have {self.claimed:,} parameters or more, expected "
                f"are at most {self.most:,}. {self.reason}"
            )


_limit: ContextVar[_Limit | None] = ContextVar("network_size", default=None)


@contextlib.contextmanager
def networks_within(stored: int, where: object, error: type[RoboRLError]) -> Iterator[None]:
    """Refuse, in a block, networks that have more parameters in all than what is then loaded into them.

    Networks with up to :data:`SMALL` parameters more are made: loading tells where they differ.

    Args:
        stored: numbers that are loaded.
        where: file or folder that holds them, for the message.
        error: class of the error.
    """
    reason = f"{where} holds {stored:,}, so the configuration beside it is that of other networks"
    with _limited(_Limit(stored + SMALL, reason, error)):
        yield


@contextlib.contextmanager
def networks_within_memory() -> Iterator[None]:
    """Refuse, in a block, networks that this machine cannot train, unless another limit is in force already."""
    with _limited(_limit.get() or _memory_limit()):
        yield


def claim_parameters(count: int, name: str, copies: int = 1) -> None:
    """Take note that layers are about to be made.

    Args:
        count: parameters of each.
        name: of its network, for the message.
        copies: how many of this size, in an ensemble.

    Raises:
        RoboRLError: if it is too large: ConfigError, or what :func:`networks_within` was given.
    """
    (_limit.get() or _memory_limit()).claim(copies * (count + PER_LAYER), name)


def memory_bytes() -> int:
    """Return how much memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextlib.contextmanager
def _limited(limit: _Limit) -> Iterator[None]:
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def _memory_limit() -> _Limit:
    size = memory_bytes()
    reason = (
        f"In training they fill the memory of this machine then, {size / 1e9:.0f} GB: lower hidden, ensemble_size, "
        "members, action_chunk or what else makes them large"
    )
    return _Limit(size // BYTES, reason, ConfigError)


_EXHAUSTED = (
    "can't allocate memory",
    "out of memory",
    "Storage size calculation overflowed",
    "integer multiplication overflow",
    "array is too big",
    "Maximum allowed dimension exceeded",
    "int too large to convert",
)


def is_too_large(error: BaseException) -> bool:
    """Whether ``error`` of Python, NumPy or PyTorch says that a size exceeds memory or the range of integers."""
    kinds = (RuntimeError, ValueError, OverflowError)
    return isinstance(error, MemoryError) or (
        isinstance(error, kinds) and any(text in str(error) for text in _EXHAUSTED)
    )

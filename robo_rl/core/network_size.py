"""Limits on the size of networks, as a configuration that states the size may come from anyone.

Code that makes a network calls :func:`claim_parameters` before it allocates memory. Code that reads a configuration
sets the allowed number of parameters with :func:`networks_within`.
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
"""Parameters counted for each layer in addition to its own: many small layers take time and memory as well."""
SMALL = 1 << 20
"""Number of parameters that is always allowed."""


@dataclass
class _Limit:
    """The number of parameters that networks may still claim.

    Attributes:
        most: largest number of parameters of all networks.
        reason: reason for the limit, for the message.
        error: class of the error.
        claimed: parameters claimed so far.
    """

    most: int
    reason: str
    error: type[RoboRLError]
    claimed: int = 0

    def claim(self, count: int, name: str) -> None:
        self.claimed += count
        if self.claimed > self.most:
            raise self.error(
                f"the networks are too large: with {name!r} they have at least {self.claimed:,} parameters, expected "
                f"at most {self.most:,}. {self.reason}"
            )


_limit: ContextVar[_Limit | None] = ContextVar("network_size", default=None)


@contextlib.contextmanager
def networks_within(stored: int, where: object, error: type[RoboRLError]) -> Iterator[None]:
    """Reject, within a block, networks with more parameters in total than are then loaded into them.

    Up to :data:`SMALL` more parameters are accepted: loading reports the difference.

    Args:
        stored: number of parameters that are loaded.
        where: file or folder that holds them, for the message.
        error: class of the error.
    """
    reason = f"{where} holds {stored:,}, so the configuration beside it belongs to other networks"
    with _limited(_Limit(stored + SMALL, reason, error)):
        yield


@contextlib.contextmanager
def networks_within_memory() -> Iterator[None]:
    """Reject, within a block, networks that this machine cannot train, unless another limit is already active."""
    with _limited(_limit.get() or _memory_limit()):
        yield


def claim_parameters(count: int, name: str, copies: int = 1) -> None:
    """Count the parameters of layers that are about to be made.

    Args:
        count: number of parameters of each.
        name: name of the network, for the message.
        copies: number of layers of this size, in an ensemble.

    Raises:
        RoboRLError: if the networks are too large: ConfigError, or the class given to :func:`networks_within`.
    """
    (_limit.get() or _memory_limit()).claim(copies * (count + PER_LAYER), name)


def memory_bytes() -> int:
    """Return the amount of memory of this machine."""
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
        f"In training they would fill the memory of this machine, {size / 1e9:.0f} GB: lower hidden, ensemble_size, "
        "members, action_chunk or another option that makes them large"
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
    """Return whether ``error`` from Python, NumPy or PyTorch reports a size beyond memory or the range of integers."""
    kinds = (RuntimeError, ValueError, OverflowError)
    return isinstance(error, MemoryError) or (
        isinstance(error, kinds) and any(text in str(error) for text in _EXHAUSTED)
    )

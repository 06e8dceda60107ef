"""Signals in tests, which a shell or nohup may let programs ignore."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def handled(number: signal.Signals, handler: Callable[..., Any] | signal.Handlers) -> Iterator[None]:
    """Handle a signal by ``handler`` in the block, also in processes that are started there."""
    previous = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, previous)

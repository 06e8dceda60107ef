"""Handling of stops that end a robot's episode."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from robo_rl.core import SafetyStop


class Stoppable(Protocol):
    """Backend that can end its episode with the robot at rest."""

    def stop(self, reason: str) -> None: ...


@contextmanager
def stopping(backend: Stoppable) -> Iterator[None]:
    """Stop the robot if the block raises :class:`SafetyStop`."""
    try:
        yield
    except SafetyStop as stop:
        backend.stop(str(stop))
        raise

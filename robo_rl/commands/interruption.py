"""Ctrl-C and SIGTERM during a run."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interruption:
    """Turns Ctrl-C and SIGTERM into a wish that the loop reads between two steps; a second one acts at once.

    Args:
        on_quit: called by Ctrl-\\ (SIGQUIT), the emergency stop of the terminal; None: it ends the process as ever.
    """

    def __init__(self, on_quit: Callable[[], None] | None = None) -> None:
        self._on_quit = on_quit
        self.signal: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._note)
        if self._on_quit is not None:
            self._previous[signal.SIGQUIT] = signal.signal(signal.SIGQUIT, self._quit)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _quit(self, number: int, _: FrameType | None) -> None:
        assert self._on_quit is not None
        self._on_quit()

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number

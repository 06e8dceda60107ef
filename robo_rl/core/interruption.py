"""Handling of Ctrl-C, SIGTERM and a closed terminal during a run."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class Interruption:
    """Turns Ctrl-C, SIGTERM and SIGHUP into a request that the loop checks between two steps.

    A second Ctrl-C or SIGTERM acts at once. SIGHUP, which a closing terminal sends, may come several times; if it is
    ignored (nohup), it stays ignored. Outside the main thread, which alone gets signals, nothing changes.

    Args:
        on_quit: called on Ctrl-\\ (SIGQUIT), the emergency stop of the terminal; None: SIGQUIT ends the process as
            usual.
    """

    def __init__(self, on_quit: Callable[[], object] | None = None) -> None:
        self._on_quit = on_quit
        self.signal: int | None = None
        self._acts_at_once = False
        self._previous: dict[int, Any] = {}
        self._terminals: list[int] = []

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._note)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            self._terminals = [number for number in (1, 2) if os.isatty(number)]
            self._previous[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
        if self._on_quit is not None:
            self._previous[signal.SIGQUIT] = signal.signal(signal.SIGQUIT, self._quit)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def check(self, doing: str) -> None:
        """End the run if that has been requested, before its first checkpoint; ``doing`` names its current activity.

        Raises:
            SystemExit: if the run is to end. There is nothing to save.
        """
        if self.signal is not None:
            print(f"Ended while {doing}, before the first checkpoint: run the same command to start again", flush=True)
            raise SystemExit(128 + self.signal)

    @contextlib.contextmanager
    def at_once(self, doing: str) -> Iterator[None]:
        """Act as :meth:`check` at any time within this context, for code that may wait long, such as for a person."""
        self.check(doing)
        self._acts_at_once = True
        try:
            yield
        except _Ended:
            self.check(doing)
        finally:
            self._acts_at_once = False

    def _quit(self, number: int, _: FrameType | None) -> None:
        assert self._on_quit is not None
        self._on_quit()

    def _hang_up(self, number: int, _: FrameType | None) -> None:
        self.signal = self.signal or number
        # Printing to a closed terminal fails.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for terminal in self._terminals:
            os.dup2(nowhere, terminal)
        os.close(nowhere)
        if self._acts_at_once:
            raise _Ended

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        if number == signal.SIGINT:
            with contextlib.suppress(OSError):  # not with print, which the signal may have interrupted
                os.write(2, b"\nStopping; Ctrl-C again ends at once\n")
        if self._acts_at_once:
            raise _Ended


class _Ended(SystemExit):
    """A request to end that acts at once. Intermediate code does not treat a SystemExit as a failure."""


@contextlib.contextmanager
def sigterm_unwinds() -> Iterator[None]:
    """Make SIGTERM raise SystemExit instead of ending the process at once, so that files and devices are closed.

    Code that installs its own handler, as :class:`Interruption` does, still gets the signal. Outside the main thread,
    and if SIGTERM already has another handler, nothing changes.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _Terminated(SystemExit):
    """An exit by a signal, as opposed to a call of ``exit()``."""


def _exit(number: int, _: FrameType | None) -> None:
    raise _Terminated(128 + number)

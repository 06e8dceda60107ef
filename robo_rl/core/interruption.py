"""Ctrl-C, SIGTERM and a terminal that hangs up during a run."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class Interruption:
    """Turns Ctrl-C, SIGTERM and SIGHUP into a wish that the loop reads between two steps.

    A second Ctrl-C or SIGTERM acts at once. SIGHUP, which a terminal that closes sends, may come several times; where
    it is ignored (nohup) it stays so.

    Args:
        on_quit: called by Ctrl-\\ (SIGQUIT), the emergency stop of the terminal; None: it ends the process as ever.
    """

    def __init__(self, on_quit: Callable[[], object] | None = None) -> None:
        self._on_quit = on_quit
        self.signal: int | None = None
        self._acts_at_once = False
        self._previous: dict[int, Any] = {}
        self._terminals: list[int] = []

    def __enter__(self) -> "Interruption":
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
        """Ask, before the first checkpoint of a run, whether it is to end; ``doing`` says what it does.

        Raises:
            SystemExit: if it is. There is nothing to keep.
        """
        if self.signal is not None:
            print(f"Ended while {doing}, before the first checkpoint: the same command begins anew", flush=True)
            raise SystemExit(128 + self.signal)

    @contextlib.contextmanager
    def at_once(self, doing: str) -> Iterator[None]:
        """As :meth:`check`, all the time within this context: for what may wait long, as for a person's answers."""
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
        # Printing to a terminal that is gone fails.
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
            with contextlib.suppress(OSError):  # not by print, which the signal may have interrupted
                os.write(2, b"\nStopping; Ctrl-C again ends at once\n")
        if self._acts_at_once:
            raise _Ended


class _Ended(SystemExit):
    """A wish to end that is acted on at once. No code in between takes a subclass of SystemExit for a failure."""


@contextlib.contextmanager
def sigterm_unwinds() -> Iterator[None]:
    """SIGTERM raises SystemExit rather than end the process on the spot: files and devices are closed on the way.

    What takes the signal for itself, as :class:`Interruption` does, still gets it. Outside the main thread, and where
    somebody else has taken SIGTERM, nothing changes.
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
    """A signal, as opposed to code that calls ``exit()``."""


def _exit(number: int, _: FrameType | None) -> None:
    raise _Terminated(128 + number)

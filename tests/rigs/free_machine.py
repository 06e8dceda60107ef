"""Tests of time limits that hold only while other work leaves processor and disk free."""

import functools
import os
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

ATTEMPTS = 4
STARVED_SECONDS = 0.03
"""Overrun of a short sleep from which on other work has kept the processor away from this process [s]."""
BUSY_SECONDS = 0.1
"""Time of a small write to disk from which on other work has kept the disk busy [s]."""
_SLEEP_SECONDS = 0.01


class Starvation(threading.Thread):
    """A thread that sleeps and writes to disk in turn while a block runs.

    Attributes:
        sleep: longest overrun of a sleep [s].
        write: longest time of a write [s].
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.sleep = self.write = 0.0
        self._ended = threading.Event()

    def __enter__(self) -> "Starvation":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        began = time.monotonic()
        with tempfile.TemporaryFile(buffering=0) as file:
            while not self._ended.wait(_SLEEP_SECONDS):
                woken = time.monotonic()
                file.write(b"0")
                os.fsync(file.fileno())
                self.sleep, began = max(self.sleep, woken - began - _SLEEP_SECONDS), time.monotonic()
                self.write = max(self.write, began - woken)

    @property
    def exceeds_limits(self) -> bool:
        """Whether the processor or the disk delayed a test by more than its limit."""
        return self.sleep >= STARVED_SECONDS or self.write >= BUSY_SECONDS


def on_a_free_machine(test: Callable[..., None]) -> Callable[..., None]:
    """Repeat a test that fails while other work takes the processor or the disk; it still fails on a free machine."""

    @functools.wraps(test)
    def repeated(*values: Any, **named: Any) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            with Starvation() as starvation:
                try:
                    return test(*values, **named)
                except Exception as error:
                    failure = error
            delays = f"sleeps overran by up to {starvation.sleep:.3f} s, writes took up to {starvation.write:.3f} s"
            failure.add_note(f"attempt {attempt}: {delays}")
            if not starvation.exceeds_limits or attempt == ATTEMPTS:
                raise failure
            time.sleep(5.0 * attempt)

    return repeated

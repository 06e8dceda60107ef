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
"""Delay of a short sleep and a small write from which on other work counts as having starved this process [s]."""
_SLEEP_SECONDS = 0.01


class Starvation(threading.Thread):
    """A thread that sleeps and writes to disk in turn while a block runs, and measures the longest delay.

    Attributes:
        worst: longest delay [s].
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.worst = 0.0
        self._ended = threading.Event()

    def __enter__(self) -> "Starvation":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        began = time.monotonic()
        with tempfile.TemporaryFile() as file:
            while not self._ended.wait(_SLEEP_SECONDS):
                file.write(b"0")
                file.flush()
                os.fsync(file.fileno())
                now = time.monotonic()
                self.worst, began = max(self.worst, now - began - _SLEEP_SECONDS), now


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
            failure.add_note(f"attempt {attempt}: processor or disk were busy for up to {starvation.worst:.3f} s")
            if starvation.worst < STARVED_SECONDS or attempt == ATTEMPTS:
                raise failure
            time.sleep(5.0 * attempt)

    return repeated

"""A sign of life that one process gives others through a file: a held key, or a guard that looks."""

import contextlib
import os
from pathlib import Path

from .clock import Clock, MonotonicClock
from .latch import read_short

BOOT = Path("/proc/sys/kernel/random/boot_id")
"""Names one run of the machine, from its start to the next; not every system has it."""


class Heartbeat:
    """The time of the last beat, in a file.

    The time is the machine's monotonic clock, which all its processes share. It begins again when the machine
    restarts, so beside it is which run of the machine it was (:data:`BOOT`), as far as the system says.

    Args:
        file: that holds the time.
        timeout: after which whoever beats counts as gone [s].
        clock: monotonic time.
    """

    def __init__(self, file: Path, timeout: float, clock: Clock | None = None) -> None:
        self._file = file
        self._timeout_ns = round(timeout * 1e9)
        self._clock = clock or MonotonicClock()
        self._boot = (read_short(BOOT) or "").strip()

    def age(self) -> float | None:
        """Return the seconds since the last beat of this run of the machine; None where there was none."""
        text, _, boot = (read_short(self._file) or "").partition(" ")
        try:
            age_ns = self._clock.now_ns() - int(text)
        except ValueError:
            return None
        return age_ns * 1e-9 if boot == self._boot and age_ns >= 0 else None

    def is_fresh(self) -> bool:
        """Return whether the last beat is no older than the timeout."""
        age = self.age()
        return age is not None and round(age * 1e9) <= self._timeout_ns

    def beat(self) -> None:
        """Give a sign of life."""
        partial = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(f"{self._clock.now_ns()} {self._boot}")
        partial.replace(self._file)

    def end(self) -> None:
        """Take note that no more beats come: whoever beats leaves in good order."""
        with contextlib.suppress(FileNotFoundError):
            self._file.unlink()

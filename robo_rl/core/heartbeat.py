"""A sign of life that one process gives others through a file, such as a held key or a guard that looks."""

import os
from pathlib import Path

from .clock import Clock, MonotonicClock
from .errors import DriverError
from .latch import read_short

BOOT = Path("/proc/sys/kernel/random/boot_id")
"""Identifies one run of the machine, from its start to the next; some systems lack it."""


class Heartbeat:
    """The time of the last beat, in a file.

    The time is that of the machine's monotonic clock, which all its processes share. That clock starts again when the
    machine restarts, so the file also identifies the run of the machine (:data:`BOOT`), if the system does.

    Args:
        file: the file that holds the time.
        timeout: time after which the sender counts as gone [s].
        clock: monotonic time.
    """

    def __init__(self, file: Path, timeout: float, clock: Clock | None = None) -> None:
        self._file = file
        self._timeout_ns = round(timeout * 1e9)
        self._clock = clock or MonotonicClock()
        self._boot = (read_short(BOOT) or "").strip()

    def age(self) -> float | None:
        """Return the seconds since the last beat in this run of the machine; None if there was none."""
        text, boot = self._read()
        try:
            age_ns = self._clock.now_ns() - int(text)
        except ValueError:
            return None
        return age_ns * 1e-9 if boot == self._boot and age_ns >= 0 else None

    def is_damaged(self) -> bool:
        """Return whether there is a file, but neither one of this run of the machine nor of an earlier one."""
        if not os.path.lexists(self._file):
            return False
        text, boot = self._read()
        is_earlier = text.isdecimal() and boot not in ("", self._boot)
        return not is_earlier and self.age() is None

    def _read(self) -> tuple[str, str]:
        """Return time and run of the machine in the file; empty texts if it cannot be read."""
        text, _, boot = (read_short(self._file) or "").partition(" ")
        return text, boot

    def is_fresh(self) -> bool:
        """Return whether the last beat is no older than the timeout."""
        age = self.age()
        return age is not None and round(age * 1e9) <= self._timeout_ns

    def beat(self) -> None:
        """Write the current time to the file."""
        partial = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(f"{self._clock.now_ns()} {self._boot}")
        partial.replace(self._file)

    def end(self) -> None:
        """Remove the file: the sender leaves properly, and no more beats come.

        Raises:
            DriverError: if it cannot be removed.
        """
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(f"{self._file} cannot be removed ({error.strerror}): remove it by hand") from error

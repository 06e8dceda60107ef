"""Clocks of monotonic time, which alone decides time-outs: the wall clock may jump."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of monotonic time in nanoseconds."""

    def now_ns(self) -> int:
        """Return monotonic time [ns]; the origin is arbitrary."""
        ...

    def sleep_until_ns(self, deadline_ns: int) -> None:
        """Return at ``deadline_ns`` or, if that has passed, at once."""
        ...


class MonotonicClock:
    """The machine's monotonic clock."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def sleep_until_ns(self, deadline_ns: int) -> None:
        remaining = deadline_ns - time.monotonic_ns()
        if remaining > 0:
            time.sleep(remaining * 1e-9)


class ManualClock:
    """A clock that moves only on request, for simulated time and tests."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        return self._now_ns

    def advance_ns(self, duration_ns: int) -> None:
        """Move time forward by ``duration_ns`` (not negative)."""
        if duration_ns < 0:
            raise ValueError(f"monotonic time cannot go back (asked for {duration_ns} ns)")
        self._now_ns += duration_ns

    def restart(self) -> None:
        """Start again at 0, as simulated time does when an episode begins."""
        self._now_ns = 0

    def sleep_until_ns(self, deadline_ns: int) -> None:
        self._now_ns = max(self._now_ns, deadline_ns)

"""Periodic callbacks."""

import time
from collections.abc import Callable

from robo_rl.core import require

from .waiter import Waiter


class DdsTimer:
    """Periodic callback. Missed periods are skipped and not caught up.

    Args:
        waiter: runs the callback.
        period_s: time between calls [s].
        callback: function to call.

    Raises:
        ConfigError: if the period is not positive.
    """

    def __init__(self, waiter: Waiter, period_s: float, callback: Callable[[], None]) -> None:
        require(period_s > 0, "period_s", "positive", period_s)
        self._waiter = waiter
        self._period_ns = round(period_s * 1e9)
        self._callback = callback
        self._cancelled = False
        self._due_ns = time.monotonic_ns() + self._period_ns
        waiter.call_at(self._due_ns, self._tick)

    def _tick(self) -> None:
        if self._cancelled:
            return
        try:
            self._callback()
        finally:
            late_ns = time.monotonic_ns() - self._due_ns
            self._due_ns += self._period_ns * (1 + max(0, late_ns) // self._period_ns)
            self._waiter.call_at(self._due_ns, self._tick)

    def cancel(self) -> None:
        """Stop calling."""
        self._cancelled = True

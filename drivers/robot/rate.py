"""Control periods of equal length, and how well they were kept."""

from collections import deque

import numpy as np

REMEMBERED = 10_000


class RateKeeper:
    """Says when each control period ends, by monotonic time.

    Periods follow one another without a gap: what the policy takes is part of the period. A period that begins later
    than half its length is an *overrun*: it gets its whole length, and the schedule moves.

    Args:
        period_ns: length of a period.
    """

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._end_ns: int | None = None
        self._late: deque[int] = deque(maxlen=REMEMBERED)
        self.periods = 0
        self.overruns = 0
        self.overruns_in_row = 0

    def restart(self) -> None:
        """Begin a schedule with the next period."""
        self._end_ns = None
        self.overruns_in_row = 0

    def begin(self, now_ns: int) -> int:
        """Begin a period and return when it ends."""
        self.periods += 1
        scheduled_ns = now_ns if self._end_ns is None else self._end_ns
        if now_ns - scheduled_ns > self._period_ns // 2:
            self.overruns += 1
            self.overruns_in_row += 1
            scheduled_ns = now_ns
        else:
            self.overruns_in_row = 0
        self._end_ns = scheduled_ns + self._period_ns
        return self._end_ns

    def ended(self, now_ns: int) -> None:
        """Take note of when the period really ended."""
        if self._end_ns is not None:
            self._late.append(now_ns - self._end_ns)

    def jitter(self) -> tuple[float, float]:
        """Return median and 99th percentile of how late periods ended [s]."""
        if not self._late:
            return 0.0, 0.0
        median, high = np.percentile(np.array(self._late), [50, 99])
        return float(median) * 1e-9, float(high) * 1e-9

    def __str__(self) -> str:
        median, high = self.jitter()
        return (
            f"{self.periods:,} control periods of {self._period_ns * 1e-6:.1f} ms, {self.overruns} began too late; "
            f"they ended {1000 * median:.2f} ms late (median), {1000 * high:.2f} ms (99th percentile)"
        )

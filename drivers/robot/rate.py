"""Schedule of control periods of equal length, with statistics of its accuracy."""

from collections import deque
from collections.abc import Iterable

import numpy as np

from robo_rl.core import SafetyStop

REMEMBERED = 20_000


class RateKeeper:
    """Schedule of control periods by monotonic time.

    Periods follow one another without a gap: the time that the policy takes is part of the period. A period that begins
    later than half its length is an *overrun*: it still gets its whole length, and the schedule shifts.

    Attributes:
        periods: number of periods that have begun.
        overruns: number of periods that began too late.
        overruns_in_row: number of newest periods in a row that began too late.
        late: how late the newest periods ended [ns].
        reactions: times from the complete observation to the command computed from it [ns].
        ages: times from the measurement of the observation's oldest part to that command [ns].
        commanded_ns: monotonic time of the newest of these commands [ns].
    """

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._end_ns: int | None = None
        self.periods = 0
        self.overruns = 0
        self.overruns_in_row = 0
        self.late: deque[int] = deque(maxlen=REMEMBERED)
        self.reactions: deque[int] = deque(maxlen=REMEMBERED)
        self.ages: deque[int] = deque(maxlen=REMEMBERED)
        self.commanded_ns = 0

    def restart(self) -> None:
        """Begin a schedule with the next period."""
        self._end_ns = None
        self.overruns_in_row = 0

    def begin(self, now_ns: int) -> int:
        """Begin a period and return the time at which it ends."""
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

    def check_overruns(self, most: int) -> None:
        """Raise :class:`SafetyStop` if the newest ``most`` periods in a row began too late."""
        if self.overruns_in_row >= most:
            raise SafetyStop(
                "overrun",
                f"{self.overruns_in_row} control periods in a row began more than half a period "
                f"({self._period_ns / 2e6:.0f} ms) too late: the policy or this machine is too slow for "
                f"{1e9 / self._period_ns:g} Hz",
            )

    def commanded(self, now_ns: int, complete_ns: int, stamp_ns: int) -> None:
        """Record the first command of a period, sent at ``now_ns``.

        Args:
            now_ns: monotonic time.
            complete_ns: time at which the observation behind the command was complete.
            stamp_ns: time at which its oldest part was measured.
        """
        self.commanded_ns = now_ns
        self.reactions.append(now_ns - complete_ns)
        self.ages.append(now_ns - stamp_ns)

    def ended(self, now_ns: int) -> None:
        """Record the actual end of the period."""
        if self._end_ns is not None:
            self.late.append(now_ns - self._end_ns)

    def __str__(self) -> str:
        late, reaction, age = (percentiles(values) for values in (self.late, self.reactions, self.ages))
        return (
            f"{self.periods:,} control periods of {self._period_ns * 1e-6:.1f} ms, {self.overruns} began too late; "
            f"they ended {late[0]:.2f} ms late (median), {late[1]:.2f} ms (99th percentile); commands went out "
            f"{reaction[0]:.1f} ms ({reaction[1]:.1f} ms) after their observation was complete, {age[0]:.1f} ms "
            f"({age[1]:.1f} ms) after its oldest part was measured"
        )


def percentiles(nanoseconds: Iterable[int]) -> tuple[float, float]:
    """Return median and 99th percentile [ms], 0 for no values."""
    values = np.fromiter(nanoseconds, np.float64)
    median, high = np.percentile(values, [50, 99]) * 1e-6 if values.size else (0.0, 0.0)
    return float(median), float(high)

"""Rate limit of one actor's requests."""

import threading

from robo_rl.core import Clock


class Allowance:
    """Limit on a mean rate. A burst may have the amount of one second, plus one request of any size.

    Args:
        per_second: allowed amount per second; None: no limit.
        clock: monotonic clock.
    """

    def __init__(self, per_second: float | None, clock: Clock) -> None:
        self._per_second = per_second
        self._clock = clock
        self._balance = per_second or 0.0
        self._seen_ns = clock.now_ns()
        self._lock = threading.Lock()

    def spend(self, amount: float) -> float:
        """Spend ``amount`` and return 0, or, if the balance is negative, return the time to wait [s]."""
        if self._per_second is None:
            return 0.0
        with self._lock:
            now = self._clock.now_ns()
            earned = (now - self._seen_ns) * 1e-9 * self._per_second
            self._balance, self._seen_ns = min(self._balance + earned, self._per_second), now
            if self._balance < 0:
                return -self._balance / self._per_second
            self._balance -= amount
            return 0.0

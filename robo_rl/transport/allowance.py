"""How much one actor may send."""

import threading

from robo_rl.core import Clock


class Allowance:
    """Limits the mean rate of something; up to a second's worth may come at once, and one request more of any size.

    Args:
        per_second: how much is allowed; None: anything.
        clock: monotonic time.
    """

    def __init__(self, per_second: float | None, clock: Clock) -> None:
        self._per_second = per_second
        self._clock = clock
        self._balance = per_second or 0.0
        self._seen_ns = clock.now_ns()
        self._lock = threading.Lock()

    def spend(self, amount: float) -> float:
        """Take ``amount``, or nothing where too much was taken before; return how long to wait then [s], else 0."""
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

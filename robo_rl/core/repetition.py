"""Limit on messages that repeat: strangers, or a fault at the control rate, must not fill a terminal or a disk."""

import threading
from collections import Counter

from .clock import Clock, MonotonicClock

PAUSE_NS = 10_000_000_000
LONGEST_PAUSE_NS = 600_000_000_000


class Repetitions:
    """Decides which occurrences of an event are worth a message.

    The first of a kind is. While further ones follow, the pause between two messages doubles from 10 s to ten minutes.
    After a silence of ten minutes, the next one counts as the first.

    Attributes:
        counts: number of occurrences by kind.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or MonotonicClock()
        self._lock = threading.Lock()
        self._due_ns: dict[str, tuple[int, int]] = {}  # time of the next message of a kind, and the pause before it
        self._last_ns: dict[str, int] = {}
        self.counts: Counter[str] = Counter()

    def count(self, kind: str) -> bool:
        """Count an occurrence; return whether a message about it is due."""
        with self._lock:
            self.counts[kind] += 1
            now = self._clock.now_ns()
            due, pause = self._due_ns.get(kind, (now, 0))
            if now - self._last_ns.get(kind, now) >= LONGEST_PAUSE_NS:
                due, pause = now, 0
            self._last_ns[kind] = now
            if now < due:
                return False
            pause = min(max(2 * pause, PAUSE_NS), LONGEST_PAUSE_NS)
            self._due_ns[kind] = now + pause, pause
            return True

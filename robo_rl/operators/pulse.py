"""Heartbeats in both directions between ``robo-rl launch`` and a process that watches a robot."""

import contextlib
import os

from ..core import Clock, MonotonicClock

VARIABLE = "ROBO_RL_PULSE"
"""Environment variable of a launched process, with the descriptors that it reads and writes."""
BEAT_NS = 100_000_000
SILENT_SECONDS = 1.0
"""Time without a heartbeat after which the other end counts as hung [s]."""
READ_BYTES = 65536


class Pulse:
    """One end of two pipes. It sends heartbeats and receives those of the other end. A hung process does neither.

    Args:
        reads: descriptor from which heartbeats of the other end are read.
        writes: descriptor to which this end sends heartbeats.
        clock: monotonic time.

    Attributes:
        gone: whether the other end has ended.
    """

    def __init__(self, reads: int, writes: int, clock: Clock | None = None) -> None:
        self._reads, self._writes = reads, writes
        self._clock = clock or MonotonicClock()
        self._received_ns: int | None = None
        self._beaten_ns = -BEAT_NS
        self.gone = False
        for descriptor in (reads, writes):
            os.set_blocking(descriptor, False)
            os.set_inheritable(descriptor, False)

    @classmethod
    def inherited(cls) -> "Pulse | None":
        """Return this process's end if ``robo-rl launch`` started it, else None."""
        words = os.environ.get(VARIABLE, "").split(",")
        try:
            reads, writes = map(int, words)
            return cls(reads, writes)
        except (ValueError, OSError):
            return None

    def turn(self) -> None:
        """Send and read heartbeats; takes microseconds."""
        now_ns = self._clock.now_ns()
        if now_ns - self._beaten_ns >= BEAT_NS:
            self._beaten_ns = now_ns
            with contextlib.suppress(OSError):  # the other end does not read, or is gone, which its silence reveals
                os.write(self._writes, b".")
        try:
            beats = os.read(self._reads, READ_BYTES)
        except BlockingIOError:
            return
        if beats:
            self._received_ns = now_ns
        else:
            self.gone = True

    @property
    def is_silent(self) -> bool:
        """Whether the last heartbeat is older than :data:`SILENT_SECONDS`. False before the first one."""
        return self._received_ns is not None and self._clock.now_ns() - self._received_ns > SILENT_SECONDS * 1e9

    def close(self) -> None:
        """Close this end. May be called once."""
        os.close(self._reads)
        os.close(self._writes)

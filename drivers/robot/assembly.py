"""Selection of the messages for one observation: the newest, or those measured at the same time.

Ages are measured by monotonic time alone. A stamp in a message comes from another machine's wall clock, so it is only
compared with the stamp of the previous message.
"""

import threading
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Stamp = tuple[int, int]
Entry = tuple[int, Any]
"""Monotonic time at which a message was measured [ns], and the message."""

KEPT = 4096
"""Largest number of messages kept for each source."""


@dataclass(frozen=True)
class SourceTiming:
    """Age limit and delay of a source's messages.

    Attributes:
        max_age_ns: largest time from the measurement to the action [ns]; None: a message is valid until the next one.
        delay_ns: time between measurement and arrival [ns].
    """

    max_age_ns: int | None
    delay_ns: int = 0


@dataclass(frozen=True)
class Selection:
    """Messages for one observation.

    Attributes:
        messages: messages by source.
        measured_ns: monotonic times at which they were measured [ns], by source.
        stamp_ns: monotonic time at which the oldest message was measured [ns].
        expires_ns: monotonic time after which one of them is too old to act on [ns]; None: none of them expires.
    """

    messages: Mapping[str, Any]
    measured_ns: Mapping[str, int]
    stamp_ns: int
    expires_ns: int | None


class ObservationAssembler:
    """Buffer of the newest messages of each source, and selection among them.

    :meth:`put` may be called from any thread.

    Args:
        timings: age limits by source.
        align_to: a source whose messages expire. The other sources are matched to its newest message: each provides the
            message measured nearest to it, at most its ``max_age_ns`` before or after. None: the newest message of each
            source.
    """

    def __init__(self, timings: Mapping[str, SourceTiming], align_to: str | None = None) -> None:
        self._timings = dict(timings)
        self._align_to = align_to
        # Age up to which messages are kept, because no older message is matched.
        self._span_ns = 0 if align_to is None else timings[align_to].max_age_ns or 0
        self._lock = threading.Lock()
        self._kept: dict[str, deque[Entry]] = {name: deque(maxlen=KEPT) for name in timings}
        self._stamps: dict[str, Stamp] = {}

    def put(self, source: str, message: Any, received_ns: int, stamp: Stamp | None = None) -> None:
        """Add a message.

        Args:
            source: name of the source.
            message: any object.
            received_ns: monotonic time of its arrival.
            stamp: stamp of its header. A message that repeats the previous stamp is dropped. (0, 0) means no stamp.
        """
        with self._lock:
            if stamp is not None and stamp != (0, 0):
                if self._stamps.get(source) == stamp:
                    return
                self._stamps[source] = stamp
            entries = self._kept[source]
            entries.append((received_ns - self._timings[source].delay_ns, message))
            while len(entries) > 1 and entries[1][0] <= received_ns - self._span_ns:
                entries.popleft()

    def clear(self) -> None:
        """Remove all messages except those that never expire. The next messages count as new, whatever their stamps."""
        with self._lock:
            for name, entries in self._kept.items():
                if self._timings[name].max_age_ns is not None:
                    entries.clear()
            self._stamps.clear()

    def missing(self) -> list[str]:
        """Return the sources without a message."""
        with self._lock:
            return [name for name, entries in self._kept.items() if not entries]

    def newest(self, source: str) -> Any:
        """Return a source's newest message, or None if it has none."""
        with self._lock:
            entries = self._kept[source]
            return entries[-1][1] if entries else None

    def measured_ns(self, source: str) -> int | None:
        """Return the monotonic time at which a source's newest message was measured [ns], or None if it has none."""
        with self._lock:
            entries = self._kept[source]
            return entries[-1][0] if entries else None

    def stale(self, now_ns: int) -> dict[str, float]:
        """Return the age [s] of each source whose newest message is too old; infinity for a source without messages."""
        with self._lock:
            return {
                name: (now_ns - self._kept[name][-1][0]) * 1e-9 if self._kept[name] else float("inf")
                for name, timing in self._timings.items()
                if not self._kept[name]
                or (timing.max_age_ns is not None and now_ns - self._kept[name][-1][0] > timing.max_age_ns)
            }

    def select(self, now_ns: int, without: Collection[str] = ()) -> Selection | None:
        """Return the messages for one observation; None while a source is stale or has no matching message.

        Args:
            now_ns: monotonic time.
            without: sources to leave out.
        """
        if self.stale(now_ns).keys() - set(without):
            return None
        with self._lock:
            chosen = self._chosen([name for name in self._kept if name not in without])
        if chosen is None:
            return None
        ages = {name: age for name in chosen if (age := self._timings[name].max_age_ns) is not None}
        measured = [chosen[name][0] for name in ages]
        # A matched message expires together with the message that it is matched to.
        expires = [chosen[name][0] + age for name, age in ages.items() if self._align_to in (None, name)]
        messages = {name: message for name, (_, message) in chosen.items()}
        times = {name: time_ns for name, (time_ns, _) in chosen.items()}
        return Selection(messages, times, min(measured, default=now_ns), min(expires, default=None))

    def _chosen(self, names: Sequence[str]) -> dict[str, Entry] | None:
        """Return the entry that :meth:`select` chooses for each source in ``names``."""
        newest = {name: self._kept[name][-1] for name in names}
        if self._align_to is None:
            return newest
        chosen = {}
        for name in newest:
            entry = self._nearest(name, newest[self._align_to][0])
            if entry is None:
                return None
            chosen[name] = entry
        return chosen

    def _nearest(self, source: str, at_ns: int) -> Entry | None:
        """Return the message measured nearest to ``at_ns``, or the newest message if it is valid until the next.

        Return None if it was measured too long before or after, or if a dropped message may have been nearer.
        """
        entries, max_age_ns = self._kept[source], self._timings[source].max_age_ns
        if max_age_ns is None:
            return entries[-1]
        nearest = min(reversed(entries), key=lambda entry: abs(entry[0] - at_ns))
        return None if entries[0][0] > at_ns or abs(nearest[0] - at_ns) > max_age_ns else nearest

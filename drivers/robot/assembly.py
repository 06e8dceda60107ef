"""Selection of the messages that make one observation: the newest, or those measured at one time.

Only monotonic time counts. A stamp in a message is another machine's wall clock: it is only compared with the stamp of
the message before.
"""

import threading
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Stamp = tuple[int, int]
Entry = tuple[int, Any]
"""When a message was measured (monotonic time [ns]), and the message."""

KEPT = 4096
"""Largest number of messages that are kept of a source."""


@dataclass(frozen=True)
class SourceTiming:
    """Limit on the age of a source's messages.

    Attributes:
        max_age_ns: since it was measured, when it is acted on; None: it holds until the next message.
        delay_ns: between measurement and arrival.
    """

    max_age_ns: int | None
    delay_ns: int = 0


@dataclass(frozen=True)
class Selection:
    """Messages that make one observation.

    Attributes:
        messages: by source.
        stamp_ns: monotonic time at which the oldest of them was measured.
        expires_ns: monotonic time after which one of them is too old to act on; None: none grows old.
    """

    messages: Mapping[str, Any]
    stamp_ns: int
    expires_ns: int | None


class ObservationAssembler:
    """Keeps the newest messages of each source and selects among them.

    Messages may be put from other threads.

    Args:
        timings: by source.
        align_to: source, of those that grow old, to whose newest message the others are matched: each gives what it
            measured nearest to that, at most its ``max_age_ns`` before or after. None: the newest of each.
    """

    def __init__(self, timings: Mapping[str, SourceTiming], align_to: str | None = None) -> None:
        self._timings = dict(timings)
        self._align_to = align_to
        # Nothing is ever matched to a time longer ago than this.
        self._span_ns = 0 if align_to is None else timings[align_to].max_age_ns or 0
        self._lock = threading.Lock()
        self._kept: dict[str, deque[Entry]] = {name: deque(maxlen=KEPT) for name in timings}
        self._stamps: dict[str, Stamp] = {}

    def put(self, source: str, message: Any, received_ns: int, stamp: Stamp | None = None) -> None:
        """Add a message.

        Args:
            source: where it came from.
            message: any object.
            received_ns: monotonic time of its arrival.
            stamp: of its header; one that repeats the stamp before is nothing new and is left out. (0, 0) is no stamp.
        """
        with self._lock:
            if stamp is not None and stamp != (0, 0):
                if self._stamps.get(source) == stamp:
                    return
                self._stamps[source] = stamp
            kept = self._kept[source]
            kept.append((received_ns - self._timings[source].delay_ns, message))
            while len(kept) > 1 and kept[1][0] <= received_ns - self._span_ns:
                kept.popleft()

    def clear(self) -> None:
        """Forget all messages but those that hold; the next ones are new, whatever their stamps."""
        with self._lock:
            for name, kept in self._kept.items():
                if self._timings[name].max_age_ns is not None:
                    kept.clear()
            self._stamps.clear()

    def missing(self) -> list[str]:
        """Return the sources without a message."""
        with self._lock:
            return [name for name, kept in self._kept.items() if not kept]

    def newest(self, source: str) -> Any:
        """Return a source's newest message; None where there is none."""
        with self._lock:
            kept = self._kept[source]
            return kept[-1][1] if kept else None

    def stale(self, now_ns: int) -> dict[str, float]:
        """Return the age [s] of each source whose newest message is too old; infinity where there is none."""
        with self._lock:
            return {
                name: (now_ns - self._kept[name][-1][0]) * 1e-9 if self._kept[name] else float("inf")
                for name, timing in self._timings.items()
                if not self._kept[name]
                or (timing.max_age_ns is not None and now_ns - self._kept[name][-1][0] > timing.max_age_ns)
            }

    def select(self, now_ns: int, without: Collection[str] = ()) -> Selection | None:
        """Return the messages of one observation; None while a source is stale, or has none that matches.

        Args:
            now_ns: monotonic time.
            without: sources that are left out.
        """
        if self.stale(now_ns).keys() - set(without):
            return None
        with self._lock:
            chosen = self._chosen([name for name in self._kept if name not in without])
        if chosen is None:
            return None
        ages = {name: age for name in chosen if (age := self._timings[name].max_age_ns) is not None}
        measured = [chosen[name][0] for name in ages]
        # What was matched to a source's message is as good as that.
        expires = [chosen[name][0] + age for name, age in ages.items() if self._align_to in (None, name)]
        messages = {name: message for name, (_, message) in chosen.items()}
        return Selection(messages, min(measured, default=now_ns), min(expires, default=None))

    def _chosen(self, names: Sequence[str]) -> dict[str, Entry] | None:
        """Return what :meth:`select` chooses of the sources ``names``, and when it was measured, by source."""
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
        """Return the message measured nearest to ``at_ns``, or the newest where it holds until the next message.

        None where it was measured too long before or after, or one that was forgotten may have been nearer.
        """
        kept, max_age_ns = self._kept[source], self._timings[source].max_age_ns
        if max_age_ns is None:
            return kept[-1]
        nearest = min(reversed(kept), key=lambda entry: abs(entry[0] - at_ns))
        return None if kept[0][0] > at_ns or abs(nearest[0] - at_ns) > max_age_ns else nearest

"""Which messages make one observation: the newest, or those measured at one time, and none that is too old.

Only monotonic time counts. A stamp in a message is another machine's wall clock: all that is asked of it is whether it
is another than that of the message before.
"""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Stamp = tuple[int, int]

KEPT = 64
"""Messages that a source keeps to choose from."""


@dataclass(frozen=True)
class SourceTiming:
    """How old what a source gives may be.

    Attributes:
        max_age_ns: since it was measured, when it is acted on; None: it holds until something else is said.
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
    """

    messages: Mapping[str, Any]
    stamp_ns: int


class ObservationAssembler:
    """Keeps the newest messages of each source, and chooses among them.

    Messages may be put from other threads.

    Args:
        timings: by source.
        align_to: source to whose newest message the others are matched; None: the newest of each.
    """

    def __init__(self, timings: Mapping[str, SourceTiming], align_to: str | None = None) -> None:
        self._timings = dict(timings)
        self._align_to = align_to
        self._lock = threading.Lock()
        self._kept: dict[str, deque[tuple[int, Any]]] = {name: deque(maxlen=KEPT) for name in timings}
        self._stamps: dict[str, Stamp] = {}

    def put(self, source: str, message: Any, received_ns: int, stamp: Stamp | None = None) -> None:
        """Take a message in.

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
            self._kept[source].append((received_ns - self._timings[source].delay_ns, message))

    def clear(self) -> None:
        """Forget all messages but those that hold; what comes next is new, whatever its stamp."""
        with self._lock:
            for name, kept in self._kept.items():
                if self._timings[name].max_age_ns is not None:
                    kept.clear()
            self._stamps.clear()

    def missing(self) -> list[str]:
        """Return the sources that have given nothing."""
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

    def select(self, now_ns: int) -> Selection | None:
        """Return the messages of one observation; None while a source is stale.

        Args:
            now_ns: monotonic time.
        """
        if self.stale(now_ns):
            return None
        with self._lock:
            at_ns = None if self._align_to is None else self._kept[self._align_to][-1][0]
            chosen = {
                name: kept[-1] if at_ns is None else min(reversed(kept), key=lambda entry: abs(entry[0] - at_ns))
                for name, kept in self._kept.items()
            }
        measured = [at for name, (at, _) in chosen.items() if self._timings[name].max_age_ns is not None]
        return Selection({name: message for name, (_, message) in chosen.items()}, min(measured, default=now_ns))

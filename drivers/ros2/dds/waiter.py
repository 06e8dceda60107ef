"""Thread that waits for samples and times, and calls handlers."""

import ctypes
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

from ..failures import failure_text
from . import library

log = logging.getLogger(__name__)

_MOST_AT_ONCE = 64
_WAKE = 0
"""Key of the condition that wakes up the thread."""


def log_failure(function: Callable[..., None], *arguments: object) -> None:
    """Call ``function`` and log its exceptions, so that the thread continues; repeated ones are logged now and then."""
    try:
        function(*arguments)
    except Exception as error:  # a failing handler must not end the thread, which serves others too
        if (text := failure_text(error)) is not None:
            log.exception(text)


class Waiter:
    """Thread that calls handlers one after another, when their entity is triggered or their time has come.

    Exceptions of handlers are logged. The handler is called again the next time.

    Args:
        participant: handle of the participant.
        name: name of the thread.
    """

    def __init__(self, participant: int, name: str) -> None:
        self._waitset = library.call("dds_create_waitset", participant)
        self._guard = library.call("dds_create_guardcondition", participant)
        library.call("dds_waitset_attach", self._waitset, self._guard, _WAKE)
        self._lock = threading.Lock()
        self._keys = itertools.count(1)
        self._handlers: dict[int, Callable[[], None]] = {}
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._running = True
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def attach(self, condition: int, handler: Callable[[], None]) -> None:
        """Call ``handler`` whenever the entity with the handle ``condition`` is triggered."""
        with self._lock:
            key = next(self._keys)
            self._handlers[key] = handler
        library.call("dds_waitset_attach", self._waitset, condition, key)

    def call_at(self, due_ns: int, handler: Callable[[], None]) -> None:
        """Call ``handler`` once, at ``due_ns`` of the monotonic clock or as soon afterwards as the thread is free."""
        with self._lock:
            heapq.heappush(self._due, (due_ns, next(self._keys), handler))
        self._wake()

    def close(self) -> None:
        """End the thread, after the current handler if one is running."""
        self._running = False
        self._wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _wake(self) -> None:
        library.call("dds_set_guardcondition", self._guard, True)

    def _run(self) -> None:
        triggered = (ctypes.c_ssize_t * _MOST_AT_ONCE)()
        while self._running:
            count = library.call("dds_waitset_wait", self._waitset, triggered, _MOST_AT_ONCE, self._remaining_ns())
            keys = triggered[: min(count, _MOST_AT_ONCE)]
            if _WAKE in keys:
                library.call("dds_set_guardcondition", self._guard, False)
            for key in keys:
                if key != _WAKE and self._running:
                    log_failure(self._handlers[key])
            while self._running and (handler := self._next_due()):
                log_failure(handler)

    def _remaining_ns(self) -> int:
        with self._lock:
            return max(0, self._due[0][0] - time.monotonic_ns()) if self._due else library.INFINITY_NS

    def _next_due(self) -> Callable[[], None] | None:
        with self._lock:
            if self._due and self._due[0][0] <= time.monotonic_ns():
                return heapq.heappop(self._due)[2]
        return None

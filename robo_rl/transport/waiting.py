"""Calls whose request has not arrived yet, limited in number."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MOST_WAITING = 32
"""Largest number of calls that may wait for their request. Each occupies a thread of the server."""


class WaitingCalls:
    """Set of calls that wait for their requests.

    When more than :data:`MOST_WAITING` calls wait, the oldest call of the host with the most waiting calls is ended. An
    actor sends its request together with the call, so a call that waits for long does not come from an actor, or its
    connection is lost. Without a limit, such calls would occupy all threads, and no actor would be answered. The server
    needs ``MOST_WAITING + 1`` threads in addition to those that handle requests, because the newest call ends another
    one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._contexts: dict[Any, str] = {}  # hosts by context, oldest first

    def receive(self, requests: Iterator[bytes], context: Any) -> bytes | None:
        """Return the request of a call, or None if the call ends without one.

        Raises:
            grpc.RpcError: if the call is cancelled while it waits; gRPC's server handles this error.
        """
        with self._waiting(context):
            return next(requests, None)

    @contextmanager
    def _waiting(self, context: Any) -> Iterator[None]:
        with self._lock:
            self._contexts[context] = context.peer().rpartition(":")[0]
            oldest = self._take_oldest() if len(self._contexts) > MOST_WAITING else None
        if oldest is not None:
            oldest.cancel()
        try:
            yield
        finally:
            with self._lock:
                self._contexts.pop(context, None)

    def _take_oldest(self) -> Any:
        """Remove and return the oldest call of the host with the most waiting calls."""
        busiest, _ = Counter(self._contexts.values()).most_common(1)[0]
        oldest = next(context for context, host in self._contexts.items() if host == busiest)
        del self._contexts[oldest]
        return oldest

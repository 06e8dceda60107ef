"""Calls whose request has not come yet, bounded in number."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MOST_WAITING = 32
"""Calls that may wait for their request at a time. Each holds a thread of the server."""


class WaitingCalls:
    """Ends the oldest call of the host that holds most when more than :data:`MOST_WAITING` wait for their requests.

    An actor sends its request together with the call, so a call that waits for long is a stranger's, or its connection
    is lost. Without a bound such calls take all threads, and no actor is answered. The server needs
    ``MOST_WAITING + 1`` threads besides those that work: the newest call ends another one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._contexts: dict[Any, str] = {}  # and their hosts, oldest first

    def receive(self, requests: Iterator[bytes], context: Any) -> bytes | None:
        """Return the request of a call; None if the call ends without one.

        Raises:
            grpc.RpcError: if the call is cancelled meanwhile. The server hides it.
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
        """Remove and return the oldest call of the host that holds most."""
        busiest, _ = Counter(self._contexts.values()).most_common(1)[0]
        oldest = next(context for context, host in self._contexts.items() if host == busiest)
        del self._contexts[oldest]
        return oldest

"""Listening sockets that hold few connections of strangers at a time, and keep places for those who know the token."""

import socket
import time
from collections import Counter
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

MOST_STRANGERS = 48
"""Connections that have not shown a token: a file of the process each. Those of pages come on top."""
GRACE_SECONDS = 0.1
"""How long a connection may take to show its token before one of the same host takes its place."""


class Visitor(NamedTuple):
    """A connection that has not shown a token.

    Attributes:
        connection: its socket.
        host: that opened it.
        since: time at which that was, of :func:`time.monotonic` [s].
    """

    connection: socket.socket
    host: str
    since: float


class Listener(socket.socket):
    """Takes :data:`MOST_STRANGERS` at a time.

    When there are more, the oldest of the host that holds most of them is closed for the new one. Only hosts that hold
    most of them already have to wait until their oldest is older than :data:`GRACE_SECONDS`; before that, their new
    ones are closed. So strangers who open connections and say nothing neither keep an operator out nor use up the files
    of a process that records or trains.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._strangers: list[Visitor] = []

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection and who opened it.

        Raises:
            ConnectionAbortedError: if it was one too many. The event loop goes on with the next.
        """
        connection, address = super().accept()
        now, host = time.monotonic(), str(address[0])
        # A socket that was closed has no number.
        self._strangers = [each for each in self._strangers if each.connection.fileno() != -1]
        if len(self._strangers) >= MOST_STRANGERS and not self._make_room(host, now):
            connection.close()
            raise ConnectionAbortedError("too many connections are open")
        self._strangers.append(Visitor(connection, host, now))
        return connection, address

    def trust(self, number: int) -> None:
        """Close the connection whose file has this number for no other one: it has shown the token."""
        self._strangers = [each for each in self._strangers if each.connection.fileno() != number]

    def _make_room(self, host: str, now: float) -> bool:
        """Close a stranger for a new connection of ``host``; return whether there is one to close."""
        counts = Counter(each.host for each in self._strangers)
        busiest = max(counts, key=lambda each: (counts[each], each == host))
        oldest = next(each for each in self._strangers if each.host == busiest)
        if busiest == host and now - oldest.since < GRACE_SECONDS:
            return False
        self._strangers.remove(oldest)
        with suppress(OSError):  # the event loop closes it when it sees its end
            oldest.connection.shutdown(socket.SHUT_RDWR)
        return True


def listen(host: str, port: int) -> list[Listener]:
    """Return a socket, bound, for each address that ``host`` has on this machine.

    Raises:
        OSError: if there is no such host, or the port is taken.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with ExitStack() as closing:
        listeners = []
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listener = closing.enter_context(Listener(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listeners.append(listener)
        closing.pop_all()
    return listeners

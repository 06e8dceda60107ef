"""Listening sockets that hold few connections at a time, whoever opens them."""

import socket
from contextlib import ExitStack
from typing import Any

MOST_CONNECTIONS = 64
"""Those of 16 pages, and of strangers before they have shown a token: a file of the process each."""


class Listener(socket.socket):
    """Takes :data:`MOST_CONNECTIONS` at a time; more are closed at once, before they cost anything.

    A stranger who opens connections and says nothing would else leave a process that records or trains without files to
    open, for its episodes and checkpoints too.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._taken: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection and who opened it.

        Raises:
            ConnectionAbortedError: if it was one too many. The event loop goes on with the next.
        """
        connection, address = super().accept()
        self._taken = [each for each in self._taken if each.fileno() != -1]  # a socket that was closed has none
        if len(self._taken) >= MOST_CONNECTIONS:
            connection.close()
            raise ConnectionAbortedError("too many connections are open")
        self._taken.append(connection)
        return connection, address


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

"""Listening sockets with a limit on unauthenticated connections, so that authenticated ones always find a place."""

import errno
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, suppress
from typing import Any, NamedTuple

from websockets.asyncio.server import Server, ServerConnection

from robo_rl.core import ConfigError

MOST_STRANGERS = 48
"""Limit on connections without a token, each with a file descriptor. Connections of pages are not counted."""
GRACE_SECONDS = 0.1
"""Time that a connection has to show its token before another one of the same host may replace it [s]."""
MOST_REFUSED = 100
"""Most connections that are refused before other tasks of the event loop continue."""


class Visitor(NamedTuple):
    """A connection that has not shown a token.

    Attributes:
        connection: socket of the connection.
        host: host that opened it.
        since: time when it was opened, of :func:`time.monotonic` [s].
    """

    connection: socket.socket
    host: str
    since: float


class Listener(socket.socket):
    """A socket that accepts :data:`MOST_STRANGERS` unauthenticated connections at a time.

    Beyond this limit, the oldest connection of the host with the most connections is closed for the new one. If the new
    connection is of that host itself, the oldest must be older than :data:`GRACE_SECONDS`; otherwise the new one is
    closed. So strangers who open connections and send nothing can neither keep an operator out nor use up the file
    descriptors of a process that records or trains.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._strangers: list[Visitor] = []

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection and the address of its client.

        Connections beyond the limit are closed. The queue of the kernel behind them is short, and who finds it full
        tries again after a second at the earliest, an operator among them.

        Raises:
            BlockingIOError: if no connection is left.
            ConnectionAbortedError: if :data:`MOST_REFUSED` were closed. The event loop continues with the next one.
        """
        for _ in range(MOST_REFUSED):
            connection, address = super().accept()
            now, host = time.monotonic(), str(address[0])
            # A closed socket has no file descriptor.
            self._strangers = [visitor for visitor in self._strangers if visitor.connection.fileno() != -1]
            if len(self._strangers) < MOST_STRANGERS or self._make_room(host, now):
                self._strangers.append(Visitor(connection, host, now))
                return connection, address
            connection.close()
        raise ConnectionAbortedError("too many connections are open")

    def trust(self, number: int) -> None:
        """Exempt the connection with the file descriptor ``number`` from replacement: it has shown the token."""
        self._strangers = [visitor for visitor in self._strangers if visitor.connection.fileno() != number]

    def _make_room(self, host: str, now: float) -> bool:
        """Close an unauthenticated connection for a new one of ``host``; return whether one could be closed."""
        counts = Counter(visitor.host for visitor in self._strangers)
        busiest = max(counts, key=lambda name: (counts[name], name == host))
        oldest = next(visitor for visitor in self._strangers if visitor.host == busiest)
        if busiest == host and now - oldest.since < GRACE_SECONDS:
            return False
        self._strangers.remove(oldest)
        with suppress(OSError):  # the event loop closes it at the end of the stream
            oldest.connection.shutdown(socket.SHUT_RDWR)
        return True


def listen(host: str, port: int) -> list[Listener]:
    """Return a bound socket for each address that ``host`` has on this machine.

    Raises:
        OSError: if the host is unknown, or the port is in use.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError as error:  # two dots in a row, for example
        raise OSError(errno.EINVAL, f"{host!r} is not the name of a host") from error
    with ExitStack() as closing:
        listeners = []
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            listener = closing.enter_context(Listener(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listeners.append(listener)
        closing.pop_all()
    return listeners


@asynccontextmanager
async def served(
    listeners: list[Listener],
    host: str,
    ports: Sequence[int],
    option: str,
    serve: Callable[[Listener], AbstractAsyncContextManager[Server]],
) -> AsyncIterator[int]:
    """Serve on all addresses of ``host`` within the context, at the first of ``ports`` that is free, and yield it.

    Args:
        listeners: list that receives the sockets before the first connection.
        host: name or address.
        ports: ports in the order in which they are tried; 0: any free one.
        option: option that names the address, for messages.
        serve: serves on a socket.

    Raises:
        ConfigError: naming ``option`` if an address is not available.
    """
    for port in ports:
        async with AsyncExitStack() as stack:
            try:
                listeners[:] = listen(host, port)
                for listener in listeners:
                    await stack.enter_async_context(serve(listener))
            except OSError as error:
                for listener in listeners:
                    listener.close()
                in_use = error.errno == errno.EADDRINUSE
                if in_use and port != ports[-1]:
                    continue
                remedy = ". End the command that listens there, or choose another port (0: any free one)"
                place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                raise ConfigError(f"cannot listen on {option} {place}: {error.strerror}{remedy * in_use}") from error
            yield listeners[0].getsockname()[1]
            return


def trust(listeners: list[Listener], connection: ServerConnection) -> None:
    """Exempt a connection that has shown the token from replacement."""
    number = connection.transport.get_extra_info("socket").fileno()
    for listener in listeners:
        listener.trust(number)

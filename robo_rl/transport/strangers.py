"""Limit on connections of clients that have presented neither the token nor a certificate."""

import contextlib
import errno
import os
import re
import socket
import threading
import time
import urllib.parse
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path

GRACE_SECONDS = 0.1
"""Time in which a new connection may present the token or a certificate before it can be closed [s]."""
PAUSES_SECONDS = 0.05, 0.5
"""Pauses between two counts of the connections [s]: after a count with too many strangers, and otherwise."""

_PEER = re.compile(r"ipv[46]:(?P<host>.+):(?P<port>\d+)")
_FILES = Path("/proc/self/fd")

_Address = tuple[str, int]


class Strangers:
    """Watch over the TCP connections of a server that limits those of strangers, which have made no valid call yet.

    gRPC limits all connections alike, so strangers could occupy all of them, and replace each one that is closed.
    Beyond a limit, this class closes connections of strangers: those of the host with the most, oldest first. The
    remaining connections are left to clients with the token or a certificate, who are strangers until their first call.

    Unix sockets have no strangers. If a process cannot list its open files (outside Linux), this class does nothing.

    Args:
        most: largest number of connections of strangers.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._trusted: set[_Address] = set()
        self._seen_seconds: dict[_Address, float] = {}
        self._closing = threading.Event()

    def trust(self, peer: str) -> None:
        """Exempt the connection of ``peer``, an address in gRPC's form, after one of its calls was admitted."""
        if (address := _parse(peer)) is not None:
            self._trusted.add(address)

    def watch(self, port: int) -> None:
        """Start a thread that limits the connections to ``port`` of this process."""
        threading.Thread(target=self._watch, args=(port,), name="transport-strangers", daemon=True).start()

    def close(self) -> None:
        """End the thread."""
        self._closing.set()

    def _watch(self, port: int) -> None:
        pause = 0.0
        while not self._closing.wait(pause):
            # copied before the list is made: a connection that is trusted later may be missing in it
            trusted = set(self._trusted)
            try:
                present = {address for local, address, _ in _connections() if local == port}
                victims = self._choose(present)
                if victims:
                    _end(victims)
            except OSError:  # an incomplete list: connections that are missing in it are still trusted
                pause = PAUSES_SECONDS[0]
                continue
            self._trusted -= trusted - present
            pause = PAUSES_SECONDS[not victims]

    def _choose(self, present: set[_Address]) -> set[_Address]:
        """Return the connections to close."""
        now = time.monotonic()
        self._seen_seconds = {address: self._seen_seconds.get(address, now) for address in present}
        by_host: dict[str, deque[_Address]] = {}
        for address in sorted(present - self._trusted, key=self._seen_seconds.__getitem__):
            by_host.setdefault(address[0], deque()).append(address)
        counts, victims = Counter({host: len(addresses) for host, addresses in by_host.items()}), set()
        for _ in range(counts.total() - self._most):
            busiest = max(counts, key=counts.__getitem__)
            oldest = by_host[busiest].popleft()
            if now - self._seen_seconds[oldest] < GRACE_SECONDS:
                break
            counts[busiest] -= 1
            victims.add(oldest)
        return victims


def end_connection(peer: str) -> None:
    """Stop reading from the TCP connection of ``peer``, which gRPC then closes; data being sent still arrives.

    gRPC cannot close a single connection, so a client without the token could occupy one forever. If a process cannot
    list its open files (outside Linux), this function does nothing.

    Args:
        peer: address in gRPC's form, ``ipv4:HOST:PORT`` or ``ipv6:[HOST]:PORT``; other connections stay.
    """
    if (address := _parse(peer)) is not None:
        with contextlib.suppress(OSError):  # at the limit of open files, the connection stays
            _end({address})


def _parse(peer: str) -> _Address | None:
    match = _PEER.fullmatch(urllib.parse.unquote(peer))
    return None if match is None else (match["host"].strip("[]"), int(match["port"]))


def _end(addresses: set[_Address]) -> None:
    for _, address, connection in _connections():
        if address in addresses:
            with contextlib.suppress(OSError):  # closed meanwhile
                connection.shutdown(socket.SHUT_RD)


def _connections() -> Iterator[tuple[int, _Address, socket.socket]]:
    """Yield the port, the other side's address and a copy of each TCP connection of this process.

    Raises:
        OSError: if the process has too many open files to list them.
    """
    try:
        files = list(_FILES.iterdir())
    except FileNotFoundError:  # outside Linux
        return
    for entry in files:
        try:
            # duplicated, because the descriptor may be closed and reused at any time
            copy = os.dup(int(entry.name)) if str(entry.readlink()).startswith("socket:") else None
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            continue  # closed meanwhile
        if copy is None:
            continue
        try:
            connection = socket.socket(fileno=copy)
        except OSError:
            os.close(copy)
            continue
        with connection, contextlib.suppress(OSError):  # not connected
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                host, port = connection.getpeername()[:2]
                address = host.removeprefix("::ffff:"), port  # IPv4 on a socket for both protocols
                yield connection.getsockname()[1], address, connection

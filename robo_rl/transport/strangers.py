"""Connections of clients without the token, which the learner closes."""

import contextlib
import os
import re
import socket
import urllib.parse
from pathlib import Path

_PEER = re.compile(r"ipv[46]:(?P<host>.+):(?P<port>\d+)")
_FILES = Path("/proc/self/fd")


def end_connection(peer: str) -> None:
    """Stop reading from the TCP connection of ``peer``, which gRPC then closes; what is being sent still arrives.

    gRPC cannot close a connection on its own, so a client without the token could occupy one for ever. Where a process
    cannot list its open files (outside Linux), nothing happens.

    Args:
        peer: address as gRPC gives it, ``ipv4:HOST:PORT`` or ``ipv6:[HOST]:PORT``; other connections stay.
    """
    match = _PEER.fullmatch(urllib.parse.unquote(peer))
    if match is None or not _FILES.is_dir():
        return
    address = match["host"].strip("[]"), int(match["port"])
    for entry in _FILES.iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if not str(entry.readlink()).startswith("socket:"):
                continue
            copy = os.dup(int(entry.name))  # the number of the file may get another meaning at any time
            try:
                if _shut(copy, address):
                    return
            finally:
                os.close(copy)


def _shut(descriptor: int, address: tuple[str, int]) -> bool:
    """End the reception of a socket if it is connected to ``address``; return whether it is."""
    connection = socket.socket(fileno=descriptor)
    try:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        host, port = connection.getpeername()[:2]
        if (host.removeprefix("::ffff:"), port) != address:  # IPv4 on a socket for both protocols
            return False
        connection.shutdown(socket.SHUT_RD)
        return True
    finally:
        connection.detach()

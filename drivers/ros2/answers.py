"""Waiting for the answer of a server that may end or restart before it answers."""

import time
from collections.abc import Callable, Hashable

from robo_rl.core import DriverError

LOOK_SECONDS = 0.2
"""Time between two checks of the available servers [s]."""

Servers = frozenset[Hashable]
"""Identities of the servers of one service. A restarted server has a new identity, even under the same name."""


class ServerLostError(DriverError):
    """Request that can no longer be answered, because its server ended or was replaced."""


def seconds(duration: float) -> str:
    """Return a duration [s] as text, rounded to milliseconds."""
    return f"{round(duration, 3):g} s"


def wait_for_answer(
    what: str, answered: Callable[[float], bool], addressed: Servers, servers: Callable[[], Servers], timeout_s: float
) -> bool:
    """Return whether an answer arrived within ``timeout_s``.

    Args:
        what: name of the request, for the message.
        answered: waits up to the given number of seconds and returns whether the answer has arrived.
        addressed: servers that were available when the request was sent.
        servers: returns the servers that are available now.
        timeout_s: longest wait [s].

    Raises:
        ServerLostError: if none of those servers is available any more, or a new server is.
    """
    deadline = time.monotonic() + timeout_s
    while not answered(max(0.0, min(LOOK_SECONDS, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            return False
        current = servers()
        if not addressed or (current & addressed and current <= addressed):
            continue
        if answered(0.0):
            return True
        cause = (
            "a new server has taken the place of the one that was asked"
            if current - addressed
            else "the server has ended"
        )
        raise ServerLostError(f"{what}: {cause}, without an answer to this request")
    return True

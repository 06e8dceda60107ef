"""Waiting for the answer of a server that may end, or be started again, before it answers."""

import time
from collections.abc import Callable, Hashable

from robo_rl.core import DriverError

LOOK_SECONDS = 0.2
"""Between two looks at which servers are there."""

Servers = frozenset[Hashable]
"""Identities of the servers of one service. One that is started again under the same name has another identity."""


class ServerLostError(DriverError):
    """A request that can have no answer any more: its server ended, or another took its place."""


def seconds(duration: float) -> str:
    """Return a duration [s] as text, without digits that nobody reads."""
    return f"{round(duration, 3):g} s"


def wait_for_answer(
    what: str, answered: Callable[[float], bool], addressed: Servers, servers: Callable[[], Servers], timeout_s: float
) -> bool:
    """Return whether an answer came within ``timeout_s``.

    Args:
        what: of the request, for the message.
        answered: waits up to a number of seconds and returns whether the answer is there.
        addressed: the servers that were there when the request was sent.
        servers: returns those that are there now.
        timeout_s: longest wait [s].

    Raises:
        ServerLostError: if none of those servers is there any more, or a new one is.
    """
    deadline = time.monotonic() + timeout_s
    while not answered(max(0.0, min(LOOK_SECONDS, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            return False
        now = servers()
        if not addressed or (now & addressed and now <= addressed):
            continue
        if answered(0.0):
            return True
        how = (
            "a new server has taken the place of the one that was asked" if now - addressed else "the server has ended"
        )
        raise ServerLostError(f"{what}: {how}, without an answer to this request")
    return True

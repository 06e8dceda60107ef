"""Protocols of both ends of the transport between actors and learner."""

from collections.abc import Sequence
from typing import Protocol

from .types import Refusal, SessionProgress, Transition


class TransitionInbox(Protocol):
    """The store in which the learner's end of the transport puts steps; safe to call from several threads."""

    def open_session(self, actor: str, newest: int) -> int:
        """Return a new session number for ``actor``, above ``newest``; it is durable on return."""
        ...

    def newest_session(self, actor: str) -> int:
        """Return the largest number that ``open_session`` returned to ``actor``, also before a restart; 0: none."""
        ...

    def has_session(self, actor: str, session: int) -> bool:
        """Return whether ``open_session`` returned this number to ``actor``, now or before a restart."""
        ...

    def progress(self, actor: str, session: int) -> SessionProgress: ...

    def blocked(self) -> str:
        """Return why nothing can be taken in now; empty if steps can be."""
        ...

    def offer(self, actor: str, session: int, items: Sequence[Transition | Refusal]) -> None:
        """Take in ``items``, in order and without a gap from ``progress().wanted``."""
        ...

    def close_session(self, actor: str, session: int) -> None:
        """Store the remaining steps of a session that sends no more."""
        ...


class TransitionOutbox(Protocol):
    """Encoded steps for the actor's end of the transport; they remain until the learner has settled them."""

    def sessions(self) -> list[int]:
        """Return the sessions with steps to send or an end to report, oldest first."""
        ...

    def extent(self, session: int) -> tuple[int, int]:
        """Return the smallest sequence number held, and the largest plus one."""
        ...

    def read(self, session: int, sequence: int, max_bytes: int) -> list[bytes]:
        """Return encoded steps from ``sequence`` on, up to ``max_bytes``, but at least one if there is one."""
        ...

    def settle(self, session: int, sequence: int) -> None:
        """Forget the steps below ``sequence``."""
        ...

    def drop_session(self, session: int) -> None:
        """Forget a session that has ended and is settled."""
        ...

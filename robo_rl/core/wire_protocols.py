"""The interfaces at both ends of the wire between actors and learner."""

from collections.abc import Sequence
from typing import Protocol

from .types import Refusal, SessionProgress, Transition


class TransitionInbox(Protocol):
    """Where the learner's end of the wire puts what arrives; safe to call from several threads."""

    def open_session(self, actor: str, newest: int) -> int:
        """Return a session number that ``actor`` never had, above ``newest``; durable on return."""
        ...

    def has_session(self, actor: str, session: int) -> bool:
        """Whether ``open_session`` gave this number to ``actor``, now or before a restart."""
        ...

    def progress(self, actor: str, session: int) -> SessionProgress: ...

    def blocked(self) -> str:
        """Return why nothing can be taken in now, or an empty text."""
        ...

    def offer(self, actor: str, session: int, items: Sequence[Transition | Refusal]) -> None:
        """Take in ``items``, in order and without a gap from ``progress().wanted``."""
        ...

    def close_session(self, actor: str, session: int) -> None:
        """Store what is left of a session from which nothing more will come."""
        ...


class TransitionOutbox(Protocol):
    """Where the actor's end of the wire finds encoded steps; they stay until the learner has settled them."""

    def sessions(self) -> list[int]:
        """Return the sessions with something to send or to end, oldest first."""
        ...

    def extent(self, session: int) -> tuple[int, int]:
        """Return the smallest sequence number held and the one after the largest."""
        ...

    def read(self, session: int, sequence: int, max_bytes: int) -> list[bytes]:
        """Return encoded steps from ``sequence`` on: at least one if there is one, else up to ``max_bytes``."""
        ...

    def settle(self, session: int, sequence: int) -> None:
        """Forget the steps below ``sequence``."""
        ...

    def drop_session(self, session: int) -> None:
        """Forget a session that has ended and is settled."""
        ...

"""Who speaks for each actor, and how many steps are wanted of it."""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from robo_rl.core import Clock, TransitionInbox

from . import messages_pb2 as messages
from .views import PRESENT_SECONDS, WORDS_KEPT, ActorView


@dataclass
class Lease:
    """The right of one session to speak for an actor, and its share of the steps that are wanted.

    ``lock`` is the actor's, the same for all its sessions: a call of the session before may still be at work, and the
    records of one session are decoded in their order by whoever sends them.

    ``watch`` counts the streams of ``Watch`` that it had: the newest is the one that somebody reads.
    """

    session: int
    seen_ns: int
    lock: threading.Lock
    until: int = 0  # sequence number of the first step that is not wanted yet
    statistics: Any = field(default_factory=messages.ActorStatistics)
    left: bool = False
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    orders: list[str] = field(default_factory=list)
    watch: int = 0
    words_heard: int = 0
    words: deque[str] = field(default_factory=lambda: deque(maxlen=WORDS_KEPT))
    words_lost: int = 0

    def hear(self) -> None:
        """Keep what people should know and is new in the statistics; the caller holds ``lock``."""
        said = self.statistics.words_said
        new = min(max(said - self.words_heard, 0), len(self.statistics.words))
        for text in self.statistics.words[len(self.statistics.words) - new :]:
            self.words_lost += len(self.words) == WORDS_KEPT
            self.words.append(text)
        self.words_heard = max(said, self.words_heard)

    def take_words(self) -> list[str]:
        """Return what :meth:`hear` kept since the last call, and how much of it was too much; the same lock."""
        words, lost = list(self.words), self.words_lost
        self.words.clear()
        self.words_lost = 0
        return [f"{lost} earlier messages are left out", *words] if lost else words

    def is_present(self, now_ns: int) -> bool:
        """Whether the actor counts as connected."""
        return not self.left and now_ns - self.seen_ns < PRESENT_SECONDS * 1e9

    def view(self, now_ns: int) -> ActorView:
        """Return what is known of the actor."""
        told = self.statistics
        return ActorView(
            session=self.session,
            silent_seconds=(now_ns - self.seen_ns) * 1e-9,
            produced=told.produced,
            spooled=told.spooled,
            policy_version=told.policy_version,
            refused_policies=told.refused_policies,
            held_seconds=told.held_seconds,
            practice_state=told.practice_state,
            practice=dict(told.practice),
            left=self.left,
            pictures=self.pictures,
            picture_problem=told.picture_problem,
        )


class Leases:
    """The newest lease of each actor that joined since the start. But for :meth:`get` one caller at a time.

    Args:
        inbox: knows which steps are wanted next.
        clock: monotonic time.
    """

    def __init__(self, inbox: TransitionInbox, clock: Clock) -> None:
        self._inbox = inbox
        self._clock = clock
        self._leases: dict[str, Lease] = {}

    def get(self, actor: str) -> Lease | None:
        """Return the lease of ``actor``; None: it did not join."""
        return self._leases.get(actor)

    def grant(self, actor: str, session: int) -> None:
        """Let ``session`` speak for ``actor`` from now on, and no session before it."""
        before = self._leases.get(actor)
        lock = threading.Lock() if before is None else before.lock
        self._leases[actor] = Lease(session, self._clock.now_ns(), lock)

    def take_words(self) -> list[tuple[str, str]]:
        """Return what actors said that people should know since the last call, each with the actor's name."""
        words = []
        for name, lease in list(self._leases.items()):
            with lease.lock:
                words += [(name, text) for text in lease.take_words()]
        return words

    def present_beside(self, actor: str) -> int:
        """Return how many actors but ``actor`` count as connected."""
        return len(self._present().keys() - {actor})

    def share(self, room: int) -> None:
        """Give each actor that is connected an equal part of the steps that may come yet, rounded up."""
        leases = self._present()
        for name, lease in leases.items():
            part = -(-max(room, 0) // len(leases))
            lease.until = self._inbox.progress(name, lease.session).wanted + part

    def shares(self) -> list[int]:
        """Return how far each actor may go."""
        return [lease.until for lease in self._leases.values()]

    def views(self) -> dict[str, ActorView]:
        """Return what is known of each actor."""
        now = self._clock.now_ns()
        return {name: lease.view(now) for name, lease in self._leases.items()}

    def _present(self) -> dict[str, Lease]:
        now = self._clock.now_ns()
        return {name: lease for name, lease in self._leases.items() if lease.is_present(now)}

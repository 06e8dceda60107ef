"""Leases of actors: which session may send for an actor, and up to which step."""

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
    """Right of one session to send for an actor, and its share of the steps that the learner wants.

    All sessions of an actor share one ``lock``, because a call of the previous session may still be running, and the
    records of a session are decoded in order by the threads that handle its calls.

    ``watch`` is the number of the current ``Watch`` stream; streams with a smaller number end. ``left`` is also set
    when another session has replaced this one.
    """

    session: int
    seen_ns: int
    lock: threading.Lock
    until: int = 0  # sequence number of the first step that is not wanted yet
    statistics: Any = field(default_factory=messages.ActorStatistics)
    left: bool = False
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    scene_geometry: bytes = b""
    scene_frame: bytes = b""
    orders: list[str] = field(default_factory=list)
    watch: int = 0
    words_received: int = 0
    words: deque[str] = field(default_factory=lambda: deque(maxlen=WORDS_KEPT))
    words_lost: int = 0

    def receive_words(self) -> None:
        """Keep the new messages for the operator that the statistics contain. The caller must hold ``lock``."""
        total = self.statistics.words_said
        new = min(max(total - self.words_received, 0), len(self.statistics.words))
        for text in self.statistics.words[len(self.statistics.words) - new :]:
            self.words_lost += len(self.words) == WORDS_KEPT
            self.words.append(text)
        self.words_received = max(total, self.words_received)

    def receive_scene(self) -> None:
        """Keep the scene that the statistics contain. The caller must hold ``lock``."""
        self.scene_geometry = self.statistics.scene_geometry or self.scene_geometry
        self.scene_frame = self.statistics.scene_frame or self.scene_frame
        self.statistics.ClearField("scene_geometry")
        self.statistics.ClearField("scene_frame")

    def take_words(self) -> list[str]:
        """Return the messages since the last call, with a note on dropped ones. The caller must hold ``lock``."""
        words, lost = list(self.words), self.words_lost
        self.words.clear()
        self.words_lost = 0
        return [f"{lost} earlier messages are left out", *words] if lost else words

    def is_present(self, now_ns: int) -> bool:
        """Return whether the actor counts as connected."""
        return not self.left and now_ns - self.seen_ns < PRESENT_SECONDS * 1e9

    def view(self, now_ns: int) -> ActorView:
        """Return the state of the actor."""
        statistics = self.statistics
        return ActorView(
            session=self.session,
            silent_seconds=(now_ns - self.seen_ns) * 1e-9,
            produced=statistics.produced,
            spooled=statistics.spooled,
            policy_version=statistics.policy_version,
            refused_policies=statistics.refused_policies,
            held_seconds=statistics.held_seconds,
            practice_state=statistics.practice_state,
            practice=dict(statistics.practice),
            left=self.left,
            pictures=self.pictures,
            picture_problem=statistics.picture_problem,
            scene_geometry=self.scene_geometry,
            scene_frame=self.scene_frame,
        )


class Leases:
    """Newest lease of each actor that has joined since the start.

    :meth:`get` may be called at any time; the other methods must not be called by two threads at once.

    Args:
        inbox: holds the number of the next step of each session.
        clock: monotonic clock.
        most: largest number of leases. When it is exceeded, the actors that have been silent for longest are forgotten,
            because names can be made up freely. Such an actor may join again and continue its session.
    """

    def __init__(self, inbox: TransitionInbox, clock: Clock, most: int) -> None:
        self._inbox = inbox
        self._clock = clock
        self._most = most
        self._leases: dict[str, Lease] = {}

    def get(self, actor: str) -> Lease | None:
        """Return the lease of ``actor``, or None if it has not joined."""
        return self._leases.get(actor)

    def grant(self, actor: str, session: int) -> list[str]:
        """Let ``session``, and no earlier one, send for ``actor`` from now on; return the forgotten actors."""
        previous = self._leases.get(actor)
        lock = threading.Lock() if previous is None else previous.lock
        self._leases[actor] = Lease(session, self._clock.now_ns(), lock)
        if previous is not None:
            previous.left = True
        absent = self._leases.keys() - self._present().keys()
        by_silence = sorted(absent, key=lambda name: self._leases[name].seen_ns)
        forgotten = by_silence[: max(len(self._leases) - self._most, 0)]
        self._leases = {name: lease for name, lease in self._leases.items() if name not in forgotten}
        return forgotten

    def take_words(self) -> list[tuple[str, str]]:
        """Return the messages of actors for the operator since the last call, each with the name of its actor."""
        words = []
        for name, lease in list(self._leases.items()):
            with lease.lock:
                words += [(name, text) for text in lease.take_words()]
        return words

    def present_beside(self, actor: str) -> int:
        """Return how many actors other than ``actor`` count as connected."""
        return len(self._present().keys() - {actor})

    def share(self, room: int) -> None:
        """Give each connected actor an equal share, rounded up, of the ``room`` steps that may still come."""
        leases = self._present()
        for name, lease in leases.items():
            part = -(-max(room, 0) // len(leases))
            lease.until = self._inbox.progress(name, lease.session).wanted + part

    def shares(self) -> list[int]:
        """Return, for each actor, the sequence number of the first step that is not wanted yet."""
        return [lease.until for lease in self._leases.values()]

    def views(self) -> dict[str, ActorView]:
        """Return the state of each actor."""
        now = self._clock.now_ns()
        return {name: lease.view(now) for name, lease in self._leases.items()}

    def _present(self) -> dict[str, Lease]:
        now = self._clock.now_ns()
        return {name: lease for name, lease in self._leases.items() if lease.is_present(now)}

"""Report that an actor sends to its learner with the steps."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from robo_rl.core import Metrics, plain_text

from . import messages_pb2 as messages
from .codec import OVERHEAD_BYTES
from .views import WORDS_CHARACTERS, WORDS_KEPT


class SentReport(NamedTuple):
    """Contents of a message in flight: whether it ends the run, and the number of operator messages so far."""

    ends_run: bool
    words_count: int


class ActorReport:
    """Statistics, messages for the operator, pictures, scene, and the request to end the run.

    The control loop sets them, and another thread sends them.

    Args:
        wake: called when something should be sent soon.

    Attributes:
        damaged_policies: number of policies whose chunks were invalid; they count as refused.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.damaged_policies = 0
        self._wake = wake
        self._lock = threading.Lock()
        self._statistics: Any = messages.ActorStatistics(policy_version=-1)
        self._pictures: Mapping[str, bytes] = {}
        self._picture_problem = ""
        self._geometry = self._frame = b""
        self._words: deque[str] = deque(maxlen=WORDS_KEPT)
        self._words_count = 0
        self._ends_run = False

    def report(
        self,
        *,
        produced: int,
        policy_version: int,
        refused_policies: int,
        held_seconds: float,
        practice_state: str,
        practice: Metrics,
    ) -> None:
        """Set the statistics in the next message; see ``ActorStatistics`` in messages.proto."""
        self._statistics = messages.ActorStatistics(
            produced=produced,
            policy_version=policy_version,
            refused_policies=refused_policies + self.damaged_policies,
            held_seconds=held_seconds,
            practice_state=practice_state,
            practice=practice,
        )

    def notify(self, text: str) -> None:
        """Send a message to the operator. The newest few are kept until the learner has received them."""
        with self._lock:
            self._words.append(plain_text(text, WORDS_CHARACTERS))
            self._words_count += 1
        self._wake()

    def show(self, pictures: Mapping[str, bytes], problem: str) -> None:
        """Set the newest JPEG pictures by camera for the next message, and the ``problem`` if there are none."""
        with self._lock:
            self._pictures, self._picture_problem = pictures or self._pictures, problem

    def show_scene(self, geometry: bytes, frame: bytes) -> None:
        """Set the shapes around the robot and their newest poses for the next message; empty: they have not changed."""
        with self._lock:
            self._geometry, self._frame = geometry or self._geometry, frame or self._frame

    def end_run(self) -> None:
        """Request that the learner end the run, on behalf of an operator at the robot, as soon as it can be reached."""
        self._ends_run = True
        self._wake()

    def fill(self, request: Any, spooled: int, room: int) -> SentReport:
        """Write the report into an ``ExchangeRequest``; return the argument for :meth:`acknowledge` after the reply.

        Args:
            request: request, changed in place.
            spooled: number of steps in the outbox.
            room: space for scene and pictures [bytes]. They are sent at most once, and dropped if they do not fit.
        """
        request.statistics.CopyFrom(self._statistics)
        request.statistics.spooled = spooled
        request.end_run = self._ends_run
        with self._lock:
            request.statistics.words.extend(self._words)
            request.statistics.words_said = self._words_count
            pictures, self._pictures = self._pictures, {}
            request.statistics.picture_problem = self._picture_problem
            geometry, frame, self._geometry, self._frame = self._geometry, self._frame, b"", b""
        if len(geometry) + len(frame) + OVERHEAD_BYTES <= room:
            request.statistics.scene_geometry, request.statistics.scene_frame = geometry, frame
            room -= len(geometry) + len(frame) + OVERHEAD_BYTES
        if sum(map(len, pictures.values())) + 2 * OVERHEAD_BYTES <= room:
            request.statistics.pictures.update(pictures)
        return SentReport(request.end_run, request.statistics.words_said)

    def acknowledge(self, sent: SentReport) -> None:
        """Register that the learner has received the contents of a message."""
        if sent.ends_run:
            self._ends_run = False
        with self._lock:
            for _ in range(max(len(self._words) - (self._words_count - sent.words_count), 0)):
                self._words.popleft()

"""What an actor tells its learner beside the steps."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from robo_rl.core import Metrics, plain_text

from . import messages_pb2 as messages
from .codec import OVERHEAD_BYTES
from .views import WORDS_CHARACTERS, WORDS_KEPT


class Told(NamedTuple):
    """What a message under way tells: whether it asks for the run's end, and how many words were said until then."""

    ends_run: bool
    words_said: int


class ActorReport:
    """Statistics, words for people, pictures, and the wish to end the run; set by the control loop, sent by another.

    Args:
        wake: called where something should be sent soon.

    Attributes:
        damaged_policies: policies that came in pieces that are no policy; counted as refused.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.damaged_policies = 0
        self._wake = wake
        self._lock = threading.Lock()
        self._statistics: Any = messages.ActorStatistics(policy_version=-1)
        self._pictures: Mapping[str, bytes] = {}
        self._picture_problem = ""
        self._words: deque[str] = deque(maxlen=WORDS_KEPT)
        self._words_said = 0
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
        """Set what the next message says of this actor; see ``ActorStatistics`` in messages.proto."""
        self._statistics = messages.ActorStatistics(
            produced=produced,
            policy_version=policy_version,
            refused_policies=refused_policies + self.damaged_policies,
            held_seconds=held_seconds,
            practice_state=practice_state,
            practice=practice,
        )

    def say(self, text: str) -> None:
        """Have people at the learner know of something; kept until the learner has heard it, the newest few."""
        with self._lock:
            self._words.append(plain_text(text, WORDS_CHARACTERS))
            self._words_said += 1
        self._wake()

    def show(self, pictures: Mapping[str, bytes], problem: str) -> None:
        """Set the newest JPEG pictures by camera, which go with the next message; or say why there are none."""
        with self._lock:
            self._pictures, self._picture_problem = pictures or self._pictures, problem

    def end_run(self) -> None:
        """Have the learner end the run, as soon as it can be reached: a person at the robot wants that."""
        self._ends_run = True
        self._wake()

    def fill(self, request: Any, spooled: int, room: int) -> Told:
        """Write all of it into an ``ExchangeRequest``; return what :meth:`heard` is to be given with the reply.

        Args:
            request: written in place.
            spooled: steps that wait in the outbox.
            room: bytes that pictures may take; they are sent once, where they fit.
        """
        request.statistics.CopyFrom(self._statistics)
        request.statistics.spooled = spooled
        request.end_run = self._ends_run
        with self._lock:
            request.statistics.words.extend(self._words)
            request.statistics.words_said = self._words_said
            pictures, self._pictures = self._pictures, {}
            request.statistics.picture_problem = self._picture_problem
        if sum(map(len, pictures.values())) + 2 * OVERHEAD_BYTES <= room:
            request.statistics.pictures.update(pictures)
        return Told(request.end_run, request.statistics.words_said)

    def heard(self, told: Told) -> None:
        """Take note that the learner has heard what a message told."""
        if told.ends_run:
            self._ends_run = False
        with self._lock:
            for _ in range(max(len(self._words) - (self._words_said - told.words_said), 0)):
                self._words.popleft()

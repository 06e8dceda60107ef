"""Questions whose answers arrive late, so that nobody who has a robot to control waits for them."""

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from robo_rl.core import RoboRLError

Question = TypeVar("Question")
Answer = TypeVar("Answer")

POLL_SECONDS = 0.05
"""Between two looks at what has arrived, for those who may wait for an answer."""


class Inquiries(Generic[Question, Answer]):
    """Questions that threads of their own answer, in the order they were put, while whoever asked goes on.

    Put and collect from one thread. The threads do not keep the process from ending: what is unanswered then is lost.

    Args:
        answer: called with each question in one of the threads.
        workers: number of threads.

    Attributes:
        outstanding: how many questions have yet to be answered or collected.
    """

    def __init__(self, answer: Callable[[Question], Answer], workers: int) -> None:
        self._answer = answer
        self._workers = workers
        self._asked: queue.SimpleQueue[Question] = queue.SimpleQueue()
        self._answered: queue.SimpleQueue[tuple[Question, Answer | Exception]] = queue.SimpleQueue()
        self._started = False
        self.outstanding = 0

    @property
    def waiting(self) -> bool:
        """Whether a question has yet to be answered."""
        return self.outstanding > self._answered.qsize()

    def put(self, question: Question) -> None:
        """Ask; returns at once."""
        if not self._started:
            for _ in range(self._workers):
                threading.Thread(target=self._work, daemon=True).start()
            self._started = True
        self.outstanding += 1
        self._asked.put(question)

    def collect(self) -> list[tuple[Question, Answer | RoboRLError]]:
        """Return what was answered since the last call, or failed for a reason that a user can mend; do not wait."""
        found: list[tuple[Question, Answer | RoboRLError]] = []
        while not self._answered.empty():
            question, answer = self._answered.get()
            self.outstanding -= 1
            if isinstance(answer, Exception) and not isinstance(answer, RoboRLError):
                raise answer  # a defect of ours, not of the answer
            found.append((question, answer))
        return found

    def _work(self) -> None:
        while True:
            question = self._asked.get()
            try:
                answer: Answer | Exception = self._answer(question)
            except Exception as error:
                answer = error
            self._answered.put((question, answer))

"""Questions that threads answer in the background, so that the control of a robot does not wait for them."""

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from robo_rl.core import RoboRLError

Question = TypeVar("Question")
Answer = TypeVar("Answer")

POLL_SECONDS = 0.05
"""Interval between two checks for answers, for callers that may wait [s]."""


class Inquiries(Generic[Question, Answer]):
    """Questions that threads answer in the order of arrival, while the caller continues.

    Call ``put`` and ``collect`` from one thread. The threads do not prevent the process from ending; unanswered
    questions are then lost.

    Args:
        answer: called with each question in one of the threads.
        workers: number of threads.

    Attributes:
        outstanding: number of questions that have not been answered and collected.
    """

    def __init__(self, answer: Callable[[Question], Answer], workers: int) -> None:
        self._answer = answer
        self._workers = workers
        self._questions: queue.SimpleQueue[Question] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Question, Answer | Exception]] = queue.SimpleQueue()
        self._started = False
        self.outstanding = 0

    @property
    def waiting(self) -> bool:
        """Whether a question has not been answered yet."""
        return self.outstanding > self._answers.qsize()

    def put(self, question: Question) -> None:
        """Add a question and return at once."""
        if not self._started:
            for _ in range(self._workers):
                threading.Thread(target=self._work, daemon=True).start()
            self._started = True
        self.outstanding += 1
        self._questions.put(question)

    def collect(self) -> list[tuple[Question, Answer | RoboRLError]]:
        """Return the answers since the last call, and failures that a user can fix, without waiting."""
        answers: list[tuple[Question, Answer | RoboRLError]] = []
        while not self._answers.empty():
            question, answer = self._answers.get()
            self.outstanding -= 1
            if isinstance(answer, Exception) and not isinstance(answer, RoboRLError):
                raise answer  # a bug rather than a fault of the answer
            answers.append((question, answer))
        return answers

    def _work(self) -> None:
        while True:
            question = self._questions.get()
            try:
                answer: Answer | Exception = self._answer(question)
            except Exception as error:
                answer = error
            self._answers.put((question, answer))

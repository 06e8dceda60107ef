"""Oracles that answer questions about segments of behaviour: a vision-language model or a person at an endpoint.

A scripted oracle, which reads the task's rewards, is in :mod:`.scripted_oracle`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, Metrics, RoboRLError, State

from ..parts.module import Floats
from .endpoint import BudgetSpentError, Endpoint, Picture
from .inquiries import Inquiries


class Answers(NamedTuple):
    """Answers to a round of questions.

    Attributes:
        numbers: (m,), indices of the answered questions within the round.
        values: (m,), the answers, 0 to 1; for a comparison 1 if the second segment was preferred, else 0.
        failed: number of questions that failed.
        reason: reason of the first failure.
    """

    numbers: NDArray[np.int64]
    values: Floats
    failed: int = 0
    reason: str = ""


class Oracle(Protocol):
    """Source of answers to questions about segments, one round at a time."""

    @property
    def waiting(self) -> bool:
        """Whether an answer has not arrived yet."""
        ...

    @property
    def ready(self) -> bool:
        """Whether a round may begin: no round is open, and the budget is not spent."""
        ...

    def ask(self, segments: Batch, rng: np.random.Generator) -> None:
        """Begin a round; returns at once.

        Args:
            segments: (n, length, ...); the segments of a question are adjacent.
            rng: random generator for deliberate errors.
        """
        ...

    def collect(self) -> Answers | None:
        """Return the answers of a complete round, once; None if no round is complete. Does not wait."""
        ...

    def metrics(self) -> Metrics: ...

    def state(self) -> State: ...

    def load(self, state: State) -> None: ...


class EndpointOracle(ABC):
    """Base class of oracles that send pictures to an endpoint. A segment of several steps is a strip of pictures.

    Questions with identical pictures, without an answer, or with an answer that cannot be read are left out and
    counted. The reason of a failure is printed to standard error.

    Args:
        endpoint: receives the questions.
        key: observation key of the pictures.

    Attributes:
        segments: number of segments in one question.
    """

    segments: int

    def __init__(self, endpoint: Endpoint, key: str) -> None:
        self._endpoint = endpoint
        self._key = key
        self._inquiries: Inquiries[tuple[int, Sequence[Picture]], str] = Inquiries(
            lambda question: self._question(question[1]), endpoint.config.parallel
        )
        self._open = self._spent = False
        self._values: list[tuple[int, float]] = []  # index and answer of questions of the round
        self._failures: list[RoboRLError] = []  # errors of the round
        self._counts = dict.fromkeys(("equal", "unreadable", "failed"), 0)

    @abstractmethod
    def _question(self, pictures: Sequence[Picture]) -> str:
        """Ask about some pictures; return the answer. Called in threads.

        Raises:
            EndpointError: if there is no answer.
        """

    @abstractmethod
    def _read(self, answer: str) -> float | None:
        """Return the value of an answer; -1 if it reports no difference, None if it cannot be read."""

    def _is_readable(self, answer: str) -> bool:
        return self._read(answer) is not None

    @property
    def waiting(self) -> bool:
        """Whether an answer has not arrived yet."""
        return self._inquiries.waiting

    @property
    def ready(self) -> bool:
        """Whether no round is open and the budget is not spent."""
        return not (self._open or self._spent)

    def ask(self, segments: Batch, rng: np.random.Generator) -> None:
        """See :class:`Oracle`."""
        pictures = segments[f"next_observation/{self._key}"][..., -3:]  # the newest frame of a stack
        strips = [strip(each) for each in pictures]
        self._open, self._values, self._failures = True, [], []
        for number, first in enumerate(range(0, len(strips), self.segments)):
            question = strips[first : first + self.segments]
            if len(question) > 1 and all(np.array_equal(each, question[0]) for each in question[1:]):
                self._counts["equal"] += 1
            else:
                self._inquiries.put((number, question))

    def collect(self) -> Answers | None:
        """See :class:`Oracle`."""
        for (number, _), answer in self._inquiries.collect():
            if isinstance(answer, RoboRLError):
                self._failed(answer)
            elif (value := self._read(answer)) is None:
                self._counts["unreadable"] += 1
            elif value == -1:
                self._counts["equal"] += 1
            else:
                self._values.append((number, value))
        if self._inquiries.outstanding or not self._open:
            return None
        self._open = False
        numbered_values = sorted(self._values)
        return Answers(
            np.array([number for number, _ in numbered_values], dtype=np.int64),
            np.array([value for _, value in numbered_values], dtype=np.float32),
            len(self._failures),
            str(self._failures[0]) if self._failures else "",
        )

    def metrics(self) -> Metrics:
        """Return the use and cost of the endpoint, and the numbers of questions left out."""
        return self._endpoint.metrics() | {name: float(count) for name, count in self._counts.items()}

    def state(self) -> State:
        """Return the use of the budget. Unanswered questions are lost when the process ends."""
        return self._endpoint.state()

    def load(self, state: State) -> None:
        """Restore ``state``."""
        self._endpoint.load(state)

    def _failed(self, error: RoboRLError) -> None:
        self._counts["failed"] += 1
        self._failures.append(error)
        self._spent = self._spent or isinstance(error, BudgetSpentError)
        self._endpoint.report(error)


class ComparingOracle(EndpointOracle):
    """Oracle that compares two segments: RL-VLM-F (Wang et al. 2024).

    The first question asks for the contents of the two pictures and their differences with respect to the goal. The
    second question contains the answer to the first, and requests a label.

    Args:
        endpoint: receives the questions.
        key: observation key of the pictures.
        goal: the goal, in words.
        analysis: whether to ask the first question; if not, the question for a label contains the pictures.
    """

    segments = 2

    def __init__(self, endpoint: Endpoint, key: str, goal: str, analysis: bool) -> None:
        super().__init__(endpoint, key)
        self._goal = goal
        self._analysis = analysis

    def _question(self, pictures: Sequence[Picture]) -> str:
        content = ("Picture 1:", pictures[0], "Picture 2:", pictures[1])
        if not self._analysis:
            return self._endpoint.ask((*content, LABEL.format(goal=self._goal)), LABEL_FORM, self._is_readable)
        analysis = self._endpoint.ask((*content, ANALYSIS.format(goal=self._goal)))
        described = f"Two pictures were described like this:\n{analysis}\n"
        return self._endpoint.ask((described, LABEL.format(goal=self._goal)), LABEL_FORM, self._is_readable)

    def _read(self, answer: str) -> float | None:
        return read_number(answer, -1, 1)


class ScoringOracle(EndpointOracle):
    """Oracle that rates in one picture how nearly a goal is reached.

    Args:
        endpoint: receives the questions.
        key: observation key of the pictures.
        goal: the goal, in words.
        levels: largest number that is a valid answer.
    """

    segments = 1

    def __init__(self, endpoint: Endpoint, key: str, goal: str, levels: int) -> None:
        super().__init__(endpoint, key)
        self._goal = goal
        self._levels = levels

    def _question(self, pictures: Sequence[Picture]) -> str:
        numbers = [str(level) for level in range(self._levels + 1)]
        form = {"choices": [[number, number] for number in numbers]}
        question = pictures[0], SCORE.format(goal=self._goal, levels=self._levels)
        return self._endpoint.ask(question, form, self._is_readable)

    def _read(self, answer: str) -> float | None:
        number = read_number(answer, 0, self._levels)
        return None if number is None else number / self._levels


ANALYSIS = (
    "1. What does picture 1 show? 2. What does picture 2 show? 3. The goal is: {goal}. Is there a difference between "
    "the two pictures in how nearly the goal is reached? Each picture may be a strip of moments, from left to right."
)
LABEL = (
    "The goal is: {goal}. Is it more nearly reached in picture 1 or in picture 2? Answer with one line that holds a "
    "single number: 0 for picture 1, 1 for picture 2, -1 if you are unsure or there is no difference."
)
LABEL_FORM = {"choices": [["0", "Picture 1"], ["1", "Picture 2"], ["-1", "No difference"]]}
SCORE = (
    "The goal is: {goal}. How nearly is it reached in the picture? Answer with one line that holds a single whole "
    "number from 0 (not at all) to {levels} (it is reached)."
)


def strip(pictures: Picture) -> Picture:
    """Return pictures (n, H, W, 3) side by side (H, n W, 3)."""
    return np.ascontiguousarray(np.concatenate(list(pictures), axis=1))


def read_number(answer: str, least: int, most: int) -> int | None:
    """Return the whole number that is the only content of the last line of an answer (``**Answer: 1**``).

    Return None if there is no such number, or it is less than ``least`` or more than ``most``.
    """
    last = answer.strip().rpartition("\n")[2]
    match = re.fullmatch(r"[\s*_`\"']*(?:[A-Za-z ]+:)?[\s*_`\"']*(-?\d{1,9})[\s*_`\"'.]*", last)
    return int(match[1]) if match is not None and least <= int(match[1]) <= most else None

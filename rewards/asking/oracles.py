"""Who answers about segments of behaviour: at an endpoint, a vision-language model or a person who sees pictures.

A script that knows the truth is in :mod:`.scripted_oracle`.
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


class Answered(NamedTuple):
    """Questions that somebody had an answer to.

    Attributes:
        numbers: of the questions (m,) within what was asked.
        values: the answers (m,), 0 to 1; of a comparison 1 where the second segment was preferred, else 0.
        failed: how many others nobody answered at all.
        reason: why the first of those failed.
    """

    numbers: NDArray[np.int64]
    values: Floats
    failed: int = 0
    reason: str = ""


class Oracle(Protocol):
    """Answers questions about segments, one round of them at a time."""

    @property
    def waiting(self) -> bool:
        """Whether an answer has yet to arrive."""
        ...

    @property
    def ready(self) -> bool:
        """Whether a round may begin: none is open, and there is something left to ask for."""
        ...

    def ask(self, segments: Batch, rng: np.random.Generator) -> None:
        """Begin a round; returns at once.

        Args:
            segments: (n, length, ...), those of each question side by side.
            rng: for errors that are made on purpose.
        """
        ...

    def collect(self) -> Answered | None:
        """Return the answers, once and when the round is complete; None: there are none yet. Does not wait."""
        ...

    def metrics(self) -> Metrics: ...

    def state(self) -> State: ...

    def load(self, state: State) -> None: ...


class EndpointOracle(ABC):
    """Shows pictures to whoever answers at an endpoint. A segment of several steps is a strip of pictures.

    Questions whose pictures all look the same, that are not answered, or whose answer cannot be read are left out, and
    counted. Why one failed is said on standard error.

    Args:
        endpoint: who is asked.
        key: observation key of the pictures.

    Attributes:
        segments: how many one question shows.
    """

    segments: int

    def __init__(self, endpoint: Endpoint, key: str) -> None:
        self._endpoint = endpoint
        self._key = key
        self._inquiries: Inquiries[tuple[int, Sequence[Picture]], str] = Inquiries(
            lambda question: self._question(question[1]), endpoint.config.parallel
        )
        self._open = self._spent = False
        self._values: list[tuple[int, float]] = []  # number and answer, of the round
        self._failures: list[RoboRLError] = []  # of the round
        self._counts = dict.fromkeys(("equal", "unreadable", "failed"), 0)

    @abstractmethod
    def _question(self, pictures: Sequence[Picture]) -> str:
        """Ask about some pictures; return the answer. Called in threads.

        Raises:
            EndpointError: if there is none.
        """

    @abstractmethod
    def _read(self, answer: str) -> float | None:
        """Return the value of an answer, -1 where it is that there is no difference, None: it cannot be read."""

    def _is_readable(self, answer: str) -> bool:
        return self._read(answer) is not None

    @property
    def waiting(self) -> bool:
        """Whether an answer has yet to arrive."""
        return self._inquiries.waiting

    @property
    def ready(self) -> bool:
        """Whether no round is open and the budget is not spent."""
        return not (self._open or self._spent)

    def ask(self, segments: Batch, rng: np.random.Generator) -> None:
        """See :class:`Oracle`."""
        pictures = segments[f"next_observation/{self._key}"][..., -3:]  # of a stack the newest
        strips = [strip(each) for each in pictures]
        self._open, self._values, self._failures = True, [], []
        for number, first in enumerate(range(0, len(strips), self.segments)):
            shown = strips[first : first + self.segments]
            if len(shown) > 1 and all(np.array_equal(each, shown[0]) for each in shown[1:]):
                self._counts["equal"] += 1
            else:
                self._inquiries.put((number, shown))

    def collect(self) -> Answered | None:
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
        found = sorted(self._values)
        return Answered(
            np.array([number for number, _ in found], dtype=np.int64),
            np.array([value for _, value in found], dtype=np.float32),
            len(self._failures),
            str(self._failures[0]) if self._failures else "",
        )

    def metrics(self) -> Metrics:
        """Return what was asked, its cost, and what came to nothing."""
        return self._endpoint.metrics() | {name: float(count) for name, count in self._counts.items()}

    def state(self) -> State:
        """Return what counts against the budget. Questions without an answer are lost with the process."""
        return self._endpoint.state()

    def load(self, state: State) -> None:
        """Go on from ``state``."""
        self._endpoint.load(state)

    def _failed(self, error: RoboRLError) -> None:
        self._counts["failed"] += 1
        self._failures.append(error)
        self._spent = self._spent or isinstance(error, BudgetSpentError)
        self._endpoint.tell(error)


class ComparingOracle(EndpointOracle):
    """Says which of two segments is better: RL-VLM-F (Wang et al. 2024).

    First it is asked what the two pictures show and how they differ with respect to the goal, then, with that text, for
    a label.

    Args:
        endpoint: who is asked.
        key: observation key of the pictures.
        goal: what is wanted, in words.
        analysis: whether the first of the two questions is asked; else the label is asked for at once.
    """

    segments = 2

    def __init__(self, endpoint: Endpoint, key: str, goal: str, analysis: bool) -> None:
        super().__init__(endpoint, key)
        self._goal = goal
        self._analysis = analysis

    def _question(self, pictures: Sequence[Picture]) -> str:
        shown = ("Picture 1:", pictures[0], "Picture 2:", pictures[1])
        if not self._analysis:
            return self._endpoint.ask((*shown, LABEL.format(goal=self._goal)), LABEL_FORM, self._is_readable)
        analysis = self._endpoint.ask((*shown, ANALYSIS.format(goal=self._goal)))
        described = f"Two pictures were described like this:\n{analysis}\n"
        return self._endpoint.ask((described, LABEL.format(goal=self._goal)), LABEL_FORM, self._is_readable)

    def _read(self, answer: str) -> float | None:
        return read_number(answer, -1, 1)


class ScoringOracle(EndpointOracle):
    """Says of one picture how nearly a goal is reached.

    Args:
        endpoint: who is asked.
        key: observation key of the pictures.
        goal: what is wanted, in words.
        levels: the largest number that may be answered.
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
    """Return the whole number that the last line that is not empty says and nothing else (``**Answer: 1**``).

    None: it does not, or the number is less than ``least`` or more than ``most``.
    """
    last = answer.strip().rpartition("\n")[2]
    match = re.fullmatch(r"[\s*_`\"']*(?:[A-Za-z ]+:)?[\s*_`\"']*(-?\d{1,9})[\s*_`\"'.]*", last)
    return int(match[1]) if match is not None and least <= int(match[1]) <= most else None

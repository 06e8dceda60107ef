"""Who says which of two segments is better: whoever answers at an endpoint, a vision-language model or a person.

A script that knows the truth is in :mod:`.scripted_oracle`.
"""

import re
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, Metrics, RoboRLError, State

from .vlm.endpoint import BudgetSpentError, Endpoint, Picture
from .vlm.inquiries import Inquiries


class Judged(NamedTuple):
    """Pairs that somebody had an opinion on.

    Attributes:
        pairs: their numbers (m,) within what was asked.
        second: (m,) whether the second segment was preferred.
    """

    pairs: NDArray[np.int64]
    second: NDArray[np.bool_]


class Oracle(Protocol):
    """Compares segments, one round of pairs at a time."""

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
            segments: 2 n of them, (2 n, length, ...), the two of each pair side by side.
            rng: for errors that are made on purpose.
        """
        ...

    def collect(self) -> Judged | None:
        """Return the answers, once and when the round is complete; None: there are none yet. Does not wait."""
        ...

    def metrics(self) -> Metrics: ...

    def state(self) -> State: ...

    def load(self, state: State) -> None: ...


class EndpointOracle:
    """Shows pictures to whoever answers at an endpoint: RL-VLM-F (Wang et al. 2024).

    First it asks what the two pictures show and how they differ with respect to the goal, then, with that text, for a
    label. Pairs that are called equal, that look the same or whose label cannot be read are left out. A question that
    fails is left out too, and said on standard error.

    Args:
        endpoint: who is asked.
        goal: what is wanted, in words.
        analysis: whether the first of the two questions is asked; else the label is asked for at once.
        key: observation key of the pictures.
    """

    def __init__(self, endpoint: Endpoint, goal: str, analysis: bool, key: str) -> None:
        self._endpoint = endpoint
        self._goal = goal
        self._analysis = analysis
        self._key = key
        self._inquiries = Inquiries(self._judge, endpoint.config.parallel)
        self._open = self._spent = False
        self._labels: list[tuple[int, int]] = []  # pair and label, of the round
        self._counts = dict.fromkeys(("equal", "unreadable", "failed"), 0)

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
        strips = [strip(pictures[row]) for row in range(len(pictures))]
        self._open, self._labels = True, []
        for pair in range(len(strips) // 2):
            first, second = strips[2 * pair : 2 * pair + 2]
            if np.array_equal(first, second):
                self._counts["equal"] += 1
            else:
                self._inquiries.put((pair, first, second))

    def collect(self) -> Judged | None:
        """See :class:`Oracle`."""
        for (pair, _, _), answer in self._inquiries.collect():
            if isinstance(answer, RoboRLError):
                self._failed(answer)
            elif (label := read_label(answer)) is None:
                self._counts["unreadable"] += 1
            elif label == -1:
                self._counts["equal"] += 1
            else:
                self._labels.append((pair, label))
        if self._inquiries.outstanding or not self._open:
            return None
        self._open = False
        labels = np.array(sorted(self._labels), dtype=np.int64).reshape(-1, 2)
        return Judged(labels[:, 0], labels[:, 1] == 1)

    def metrics(self) -> Metrics:
        """Return what was asked, its cost, and what came to nothing."""
        return self._endpoint.metrics() | {name: float(count) for name, count in self._counts.items()}

    def state(self) -> State:
        """Return what counts against the budget. Questions without an answer are lost with the process."""
        return self._endpoint.state()

    def load(self, state: State) -> None:
        """Go on from ``state``."""
        self._endpoint.load(state)

    def _judge(self, question: tuple[int, Picture, Picture]) -> str:
        _, first, second = question
        shown = ("Picture 1:", first, "Picture 2:", second)
        if not self._analysis:
            return self._endpoint.ask((*shown, LABEL.format(goal=self._goal)))
        analysis = self._endpoint.ask((*shown, ANALYSIS.format(goal=self._goal)))
        described = f"Two pictures were described like this:\n{analysis}\n"
        return self._endpoint.ask((described, LABEL.format(goal=self._goal)))

    def _failed(self, error: RoboRLError) -> None:
        self._counts["failed"] += 1
        self._spent = self._spent or isinstance(error, BudgetSpentError)
        self._endpoint.tell(error)


ANALYSIS = (
    "1. What does picture 1 show? 2. What does picture 2 show? 3. The goal is: {goal}. Is there a difference between "
    "the two pictures in how nearly the goal is reached? Each picture may be a strip of moments, from left to right."
)
LABEL = (
    "The goal is: {goal}. Is it more nearly reached in picture 1 or in picture 2? Answer with one line that holds a "
    "single number: 0 for picture 1, 1 for picture 2, -1 if you are unsure or there is no difference."
)


def strip(pictures: Picture) -> Picture:
    """Return pictures (n, H, W, 3) side by side (H, n W, 3)."""
    return np.ascontiguousarray(np.concatenate(list(pictures), axis=1))


def read_label(answer: str) -> int | None:
    """Return -1, 0 or 1 if the last line that is not empty says so and nothing else (``**Answer: 1**``), else None."""
    last = answer.strip().rpartition("\n")[2]
    match = re.fullmatch(r"[\s*_`\"']*(?:[A-Za-z ]+:)?[\s*_`\"']*(-1|0|1)[\s*_`\"'.]*", last)
    return None if match is None else int(match[1])

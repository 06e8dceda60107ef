"""How far learner and actors may be ahead of each other."""

import contextlib
import math
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from .run import Run

AHEAD = 4
"""Steps that each actor may take beyond the least ratio: one is to be there when the learner is done with the last."""


class Ratios(NamedTuple):
    """Bounds of learner steps to environment steps, ``0 <= least <= most``; ``least`` 0: actors are never held."""

    least: float
    most: float


def may_update(updates: int, steps: int, ratios: Ratios) -> bool:
    """Return whether the learner may do another step after ``updates``, for ``steps`` that it may learn from."""
    return updates + 1 <= ratios.most * steps


def allowed_steps(updates: int, steps: int, ratios: Ratios, actors: int) -> int:
    """Return how many steps actors may take yet, all together; 0 or less: they are held.

    Where the learner may do no step, actors may take one, whatever the ratios: neither waits for the other for ever.
    For that they may be ahead by the steps that one learner step takes, ``1 / most``, at least.

    Args:
        updates: learner steps so far.
        steps: environment steps that learner steps may be done for, so far; below 0 where learning has not begun.
        ratios: to be kept.
        actors: how many act.
    """
    if ratios.least == 0:
        return sys.maxsize
    ahead = max(AHEAD * max(actors, 1), math.ceil(1 / ratios.most))
    return math.ceil(updates / ratios.least) + ahead - steps


class Pace:
    """How far the learner of a run is, and its actors.

    Attributes:
        waited_seconds: time that the learner had nothing to do.
    """

    def __init__(self, run: Run, ratios: Ratios) -> None:
        self._run, self._ratios = run, ratios
        self._starts = max(run.agent.config.learning_starts, 1)
        self.waited_seconds = 0.0

    @property
    def learnable(self) -> int:
        """Environment steps that learner steps may be done for."""
        return max(min(self._run.step, self._run.settings.env_steps) - self._starts + 1, 0)

    @property
    def learned(self) -> float:
        """Environment steps that have been learned from as far as the largest ratio wants."""
        return min(self._run.step, self._starts - 1 + self._run.learner.updates / self._ratios.most)

    @property
    def ratio(self) -> float | None:
        """Learner steps to environment steps so far."""
        return self._run.learner.updates / self.learnable if self.learnable else None

    @property
    def may_update(self) -> bool:
        """Whether the learner may do another step."""
        return self._run.experience.is_ready and may_update(self._run.learner.updates, self.learnable, self._ratios)

    def room(self, actors: int) -> int:
        """Return how many steps ``actors`` may take yet, all together."""
        left, steps = self._run.settings.env_steps - self._run.step, self._run.step - self._starts + 1
        if not self._run.experience.is_ready:  # they are to go on until an episode is judged
            return left
        return min(left, allowed_steps(self._run.learner.updates, steps, self._ratios, actors))

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of a block in which the learner has nothing to do."""
        began = time.monotonic()
        yield
        self.waited_seconds += time.monotonic() - began

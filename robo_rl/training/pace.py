"""Limits on how far learner and actors may be ahead of each other."""

import contextlib
import math
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from .run import Run

AHEAD = 4
"""Number of steps that each actor may be ahead of the smallest ratio, so that a step is available when the learner
needs one.
"""


class Ratios(NamedTuple):
    """Bounds on learner steps per environment step, ``0 <= least <= most``. With ``least`` 0, actors are never held."""

    least: float
    most: float


def may_update(updates: int, steps: int, ratios: Ratios) -> bool:
    """Return whether the learner may do another step, after ``updates`` learner steps for ``steps`` learnable steps."""
    return updates + 1 <= ratios.most * steps


def allowed_steps(updates: int, steps: int, ratios: Ratios, actors: int) -> int:
    """Return how many more steps all actors together may take; they are held if it is 0 or less.

    Whenever the learner may not perform a step, actors may take at least one, whatever the ratios, so that the two
    never wait for each other. Actors may therefore be ahead by at least the steps that one learner step needs, ``1 /
    most``.

    Args:
        updates: number of learner steps so far.
        steps: environment steps that count towards learner steps so far; negative before learning begins.
        ratios: the bounds to keep.
        actors: number of actors.
    """
    if ratios.least == 0:
        return sys.maxsize
    ahead = max(AHEAD * max(actors, 1), math.ceil(1 / ratios.most))
    return math.ceil(updates / ratios.least) + ahead - steps


class Pace:
    """Progress of the learner and the actors of a run.

    Attributes:
        waited_seconds: time that the learner spent waiting [s].
    """

    def __init__(self, run: Run, ratios: Ratios) -> None:
        self._run, self._ratios = run, ratios
        self._starts = max(run.agent.config.learning_starts, 1)
        self.waited_seconds = 0.0

    @property
    def learnable(self) -> int:
        """Environment steps that count towards learner steps."""
        return max(min(self._run.step, self._run.settings.env_steps) - self._starts + 1, 0)

    @property
    def learned(self) -> float:
        """Number of environment steps that have been learned from as often as the largest ratio allows."""
        return min(self._run.step, self._starts - 1 + self._run.learner.updates / self._ratios.most)

    @property
    def ratio(self) -> float | None:
        """Learner steps per environment step so far."""
        return self._run.learner.updates / self.learnable if self.learnable else None

    @property
    def may_update(self) -> bool:
        """Whether the learner may do another step."""
        return self._run.experience.is_ready and may_update(self._run.learner.updates, self.learnable, self._ratios)

    def room(self, actors: int) -> int:
        """Return how many more steps ``actors`` may take, all together."""
        remaining, steps = self._run.settings.env_steps - self._run.step, self._run.step - self._starts + 1
        if not self._run.experience.is_ready:  # actors must continue until an episode has been judged
            return remaining
        return min(remaining, allowed_steps(self._run.learner.updates, steps, self._ratios, actors))

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Add the duration of a block, in which the learner has nothing to do, to ``waited_seconds``."""
        began = time.monotonic()
        yield
        self.waited_seconds += time.monotonic() - began

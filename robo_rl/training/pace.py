"""How far learner and actors may be ahead of each other."""

import math
import sys
from typing import NamedTuple

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

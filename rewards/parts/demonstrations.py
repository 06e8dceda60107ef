"""Demonstrations that reward modules are made from: which of them are fit for it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, DataError

from .module import Floats

_CHANGES = 0.1
"""From where to where an element must go, in deviations, to say something about how far an episode has come."""


def constant_elements(trajectories: Sequence[NDArray[np.floating]]) -> NDArray[np.bool_]:
    """Tell which elements (F,) stay what they are along each of ``trajectories`` (L, F), in units of their deviation.

    These say which demonstration it is (where a door stands), not what is done in it.
    """
    found: NDArray[np.bool_] = np.all([np.ptp(each, axis=0) < _CHANGES for each in trajectories], axis=0)
    return found


def require_episodes(episodes: Sequence[Batch], name: str) -> None:
    """Raise :class:`DataError` if there are no demonstrations to prepare from."""
    if not episodes:
        raise DataError(
            f"reward module {name!r} is made from demonstrations and there are none: set demonstrations.episodes to 1 "
            "or more, and demonstrations.path where the task has no scripted expert"
        )


def succeeded(episodes: Sequence[Batch], name: str) -> Sequence[Batch]:
    """Return the demonstrations but for those that ended in failure, which are no examples of what is wanted.

    Those of which nobody knows are kept.

    Raises:
        DataError: if there are none.
    """
    require_episodes(episodes, name)
    kept = [each for each in episodes if "success" not in each or each["success"][-1] != 0]
    if not kept:
        raise DataError(
            f"reward module {name!r} is made from demonstrations that succeed, and each of {len(episodes)} ended in "
            "failure: record some that succeed, or choose others by demonstrations.path"
        )
    if len(kept) < len(episodes):
        print(
            f"Reward module {name!r}: {len(episodes) - len(kept)} demonstrations that failed are left out", flush=True
        )
    return kept


def long_enough(trajectories: Sequence[Floats], least: int, name: str) -> list[Floats]:
    """Return those of ``least`` observations or more: a demonstration that began near its end shows too little.

    Raises:
        DataError: if there is none.
    """
    kept = [each for each in trajectories if len(each) >= least]
    if not kept:
        longest = max(map(len, trajectories))
        raise DataError(
            f"reward module {name!r} needs demonstrations of {least} observations, the longest has {longest}: record "
            "longer ones, or let the module look for less (its configuration says what)"
        )
    return kept

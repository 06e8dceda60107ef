"""Selection of the demonstrations that reward modules learn from."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, DataError

from .module import Floats

_CHANGES = 0.1
"""Range, in deviations, that an element must cover to be informative about the progress of an episode."""


def constant_elements(trajectories: Sequence[NDArray[np.floating]]) -> NDArray[np.bool_]:
    """Return which elements (F,) hardly change along each of ``trajectories`` (L, F), in units of their deviation.

    Such elements identify a demonstration (the position of a door), not the behaviour in it.
    """
    constant: NDArray[np.bool_] = np.all([np.ptp(trajectory, axis=0) < _CHANGES for trajectory in trajectories], axis=0)
    return constant


def require_episodes(episodes: Sequence[Batch], name: str) -> None:
    """Raise :class:`DataError` if there are no demonstrations."""
    if not episodes:
        raise DataError(
            f"reward module {name!r} needs demonstrations, and there are none: set demonstrations.episodes to 1 "
            "or more, and demonstrations.path if the task has no scripted expert"
        )


def succeeded(episodes: Sequence[Batch], name: str) -> Sequence[Batch]:
    """Return the demonstrations without those that failed, which are not examples of the task.

    Demonstrations whose outcome is unknown are kept.

    Raises:
        DataError: if no demonstrations remain.
    """
    require_episodes(episodes, name)
    selected = [episode for episode in episodes if "success" not in episode or episode["success"][-1] != 0]
    if not selected:
        raise DataError(
            f"reward module {name!r} is made from demonstrations that succeed, and each of {len(episodes)} ended in "
            "failure: record some that succeed, or choose others by demonstrations.path"
        )
    if len(selected) < len(episodes):
        print(
            f"Reward module {name!r}: {len(episodes) - len(selected)} demonstrations that failed are left out",
            flush=True,
        )
    return selected


def long_enough(trajectories: Sequence[Floats], least: int, name: str) -> list[Floats]:
    """Return the trajectories with at least ``least`` observations; shorter ones contain too little.

    Raises:
        DataError: if there are none.
    """
    selected = [trajectory for trajectory in trajectories if len(trajectory) >= least]
    if not selected:
        longest = max(map(len, trajectories))
        raise DataError(
            f"reward module {name!r} needs demonstrations of {least} observations, the longest has {longest}: record "
            "longer ones, or configure the module for shorter ones"
        )
    return selected

"""Checks of a saved replay buffer: its values, and the links between its slots."""

from collections.abc import Collection

import numpy as np

from robo_rl.core import Source

from .columns import Columns
from .cycle import SlotCycle
from .encoding import SUCCESS_CODES
from .slots import Indices


def check_saved(
    columns: Columns, cycle: SlotCycle, members: Indices, held: Collection[int], tails: Collection[int]
) -> None:
    """Check the content of a loaded buffer, before anything follows its links.

    Args:
        columns: arrays of the buffer.
        cycle: order of the slots, with the number of filled ones.
        members: slots (n,) that can be sampled.
        held: slots that are withheld from sampling.
        tails: slots of the newest observations of open episodes.

    Raises:
        ValueError: if a buffer could not contain such a value or such links.
    """
    filled = cycle.filled
    if cycle.cursor != (filled % cycle.capacity) and filled < cycle.capacity:
        raise ValueError(f"slot {cycle.cursor} is the next one, although {filled} are filled")
    slots = np.array([*members.tolist(), *held], np.intp)
    every = np.concatenate([slots, np.array(list(tails), np.intp)])
    if every.size and not 0 <= every.min() <= every.max() < filled:
        raise ValueError(f"it names slots beyond its {filled}")
    if np.unique(every).size != every.size:
        raise ValueError("it names a slot twice")
    following = columns.next[slots]
    if slots.size and not 0 <= following.min() <= following.max() < filled:
        raise ValueError(f"it links slots beyond its {filled}")
    if not (cycle.age(following) > cycle.age(slots)).all():
        raise ValueError("it links a slot to an older one")
    if np.unique(following).size != following.size:
        raise ValueError("it links two slots to the same one")
    _check_values(columns, filled)


def _check_values(columns: Columns, filled: int) -> None:
    for name, array in columns.state().items():
        if array.dtype.kind == "f" and not name.startswith("features/") and not np.isfinite(array[:filled]).all():
            raise ValueError(f"{name!r} holds values that are not finite")
    if not np.isin(columns.source[:filled], [int(source) for source in Source]).all():
        raise ValueError("'source' holds unknown sources")
    if not np.isin(columns.success[:filled], SUCCESS_CODES).all():
        raise ValueError("'success' holds unknown values")

"""The order in which the slots of the replay memory are handed out."""

import numpy as np

from .slots import Indices


class SlotCycle:
    """Hands out slots in order of arrival, the oldest again when all have been.

    Args:
        capacity: number of slots.

    Attributes:
        capacity: as given.
        cursor: the slot that is handed out next, which is the oldest once all have been.
        filled: how many slots have been handed out at least once: those below it.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.cursor = 0
        self.filled = 0

    def advance(self) -> int:
        """Hand out the next slot."""
        slot = self.cursor
        self.cursor = (slot + 1) % self.capacity
        self.filled = max(self.filled, slot + 1)
        return slot

    def newest(self, slots: Indices, n: int) -> Indices:
        """Return, in order, the ``n`` of ``slots`` (sorted) that were handed out last."""
        by_age = np.argsort((slots - self.cursor) % self.capacity)
        return slots[np.sort(by_age[-n:])]

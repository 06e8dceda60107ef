"""Order in which the slots of the replay buffer are allocated."""

import numpy as np

from .slots import Indices


class SlotCycle:
    """Allocates slots in ascending order, and starts over with the oldest slot after the last one.

    Args:
        capacity: number of slots.

    Attributes:
        capacity: the argument.
        cursor: the slot that is allocated next, which is the oldest one once all have been allocated.
        filled: number of slots that have been allocated at least once: slots 0 to ``filled - 1``.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.cursor = 0
        self.filled = 0

    def advance(self) -> int:
        """Allocate and return the next slot."""
        slot = self.cursor
        self.cursor = (slot + 1) % self.capacity
        self.filled = max(self.filled, slot + 1)
        return slot

    def newest(self, slots: Indices, n: int) -> Indices:
        """Return, in ascending order, the ``n`` of ``slots`` (sorted) that were allocated last."""
        by_age = np.argsort(self.age(slots))
        return slots[np.sort(by_age[-n:])]

    def age(self, slots: Indices) -> Indices:
        """Return numbers that rank ``slots``, of any shape, in the order in which they were allocated."""
        ranks: Indices = (slots - self.cursor) % self.capacity
        return ranks

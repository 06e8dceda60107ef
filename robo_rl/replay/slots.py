"""Set of slot numbers with uniform sampling."""

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]


class SlotSet:
    """Subset of 0 to capacity - 1. Adding, removing and drawing an element take constant time.

    The members are in ``order[:len]``, and ``position`` holds the index of each slot in ``order``, or -1. Removal moves
    the last member into the gap. The order therefore depends on the history and is part of the state.
    """

    def __init__(self, capacity: int) -> None:
        self.order: Indices = np.zeros(capacity, dtype=np.intp)
        self.position: Indices = np.full(capacity, -1, dtype=np.intp)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def members(self) -> Indices:
        """View of the members, in no particular order."""
        return self.order[: self._count]

    def add(self, slot: int) -> None:
        """Add a slot that is not a member."""
        self.order[self._count] = slot
        self.position[slot] = self._count
        self._count += 1

    def discard(self, slot: int) -> None:
        """Remove a slot if it is a member."""
        position = self.position[slot]
        if position < 0:
            return
        self._count -= 1
        moved = self.order[self._count]
        self.order[position] = moved
        self.position[moved] = position
        self.position[slot] = -1

    def contains(self, slots: Indices) -> NDArray[np.bool_]:
        """Return which of ``slots`` (any shape, all in range) are members."""
        return np.greater_equal(self.position.take(slots), 0)

    def draw(self, n: int, rng: np.random.Generator) -> Indices:
        """Draw ``n`` members uniformly with replacement (n,); the set must not be empty."""
        return self.order.take(rng.integers(0, self._count, n))

    def restore(self, count: int) -> None:
        """Make ``order[:count]`` the members, after a caller has overwritten ``order``."""
        self._count = count
        self.position.fill(-1)
        self.position[self.members] = np.arange(count)

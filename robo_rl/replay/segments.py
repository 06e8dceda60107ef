"""What follows a stored transition in its segment."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Reward

from .columns import Columns
from .slots import Indices, SlotSet


class RewardSums(NamedTuple):
    """Rewards of up to n steps from some slots on, fewer where a segment ends.

    Attributes:
        total: discounted sums, float32.
        discount: gamma to the power of the number of steps summed, float32.
        last: slots of the last steps summed.
    """

    total: NDArray[np.float32]
    discount: NDArray[np.float32]
    last: Indices


class Segments:
    """Goes from transition to transition, along the links between them and never across a gap or an episode's end.

    Args:
        columns: where they are stored.
        available: the slots that may be looked at.
    """

    def __init__(self, columns: Columns, available: SlotSet) -> None:
        self._columns = columns
        self._available = available

    def sum_rewards(
        self, slots: Indices, terms: tuple[str, ...], *, gamma: float, n_step: int, reward: Reward
    ) -> RewardSums:
        """Sum the rewards of up to ``n_step`` steps from each of ``slots`` on; ``terms`` are the columns' values."""
        columns, last = self._columns, slots
        total = reward.combine(terms, columns.values.take(last, 0), gamma)
        discount = np.full(slots.shape, gamma, dtype=np.float32)
        for step in range(1, n_step):
            following, goes_on = self._follow(last)
            if not goes_on.any():
                break
            rewards = reward.combine(terms, columns.values.take(following, 0), gamma)
            total += np.where(goes_on, np.float32(gamma**step) * rewards, np.float32(0))
            discount[goes_on] = gamma ** (step + 1)
            last = np.where(goes_on, following, last)
        return RewardSums(total, discount, last)

    def chunks(self, slots: Indices, length: int) -> Indices:
        """Return the slots (..., length) of the steps from each of ``slots`` (...) on.

        Where a segment ends before, its last one stands for those that are missing.
        """
        chunks = [slots]
        for _ in range(1, length):
            following, goes_on = self._follow(chunks[-1])
            chunks.append(np.where(goes_on, following, chunks[-1]))
        return np.stack(chunks, axis=-1)

    def _follow(self, slots: Indices) -> tuple[Indices, NDArray[np.bool_]]:
        """Return the slots after ``slots``, and whether the transitions there are known."""
        following = self._columns.next.take(slots)
        return following, self._available.contains(following)

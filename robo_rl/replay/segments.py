"""Sums of rewards and action chunks along the segments of the replay buffer."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Reward

from .columns import Columns
from .slots import Indices, SlotSet


class RewardSums(NamedTuple):
    """Sums of the rewards of up to n steps from some slots on, fewer if a segment ends earlier.

    Attributes:
        total: discounted sums, float32.
        discount: gamma to the power of the number of steps summed, float32.
        last: slots of the last steps summed.
    """

    total: NDArray[np.float32]
    discount: NDArray[np.float32]
    last: Indices


class Segments:
    """Follows the links between transitions, never across a gap or the end of an episode.

    Args:
        columns: arrays of the transitions.
        available: slots whose transitions may be used.
    """

    def __init__(self, columns: Columns, available: SlotSet) -> None:
        self._columns = columns
        self._available = available

    def sum_rewards(
        self, slots: Indices, terms: tuple[str, ...], *, gamma: float, n_step: int, reward: Reward
    ) -> RewardSums:
        """Sum the rewards of up to ``n_step`` steps from each of ``slots`` on; ``terms`` names the stored terms."""
        columns, last = self._columns, slots
        total = reward.combine(terms, columns.values.take(last, 0), gamma)
        discount = np.full(slots.shape, gamma, dtype=np.float32)
        for step in range(1, n_step):
            following, continues = self.follow(last)
            if not continues.any():
                break
            rewards = reward.combine(terms, columns.values.take(following, 0), gamma)
            total += np.where(continues, np.float32(gamma**step) * rewards, np.float32(0))
            discount[continues] = gamma ** (step + 1)
            last = np.where(continues, following, last)
        return RewardSums(total, discount, last)

    def chunks(self, slots: Indices, length: int) -> Indices:
        """Return the slots (..., length) of the steps from each of ``slots`` (...) on.

        If a segment ends earlier, its last slot is repeated.
        """
        chunks = [slots]
        for _ in range(1, length):
            following, continues = self.follow(chunks[-1])
            chunks.append(np.where(continues, following, chunks[-1]))
        return np.stack(chunks, axis=-1)

    def follow(self, slots: Indices) -> tuple[Indices, NDArray[np.bool_]]:
        """Return the slots after ``slots``, and whether their transitions are available."""
        following = self._columns.next.take(slots)
        return following, self._available.contains(following)

"""Transitions of the replay buffer as rows of arrays."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, Reward

from .available import AvailableSlots
from .columns import Columns
from .cycle import SlotCycle
from .segments import Segments
from .slots import Indices


class RingRows:
    """Access to the transitions of a replay buffer; an :class:`~robo_rl.core.Experience` for reward modules.

    Args:
        columns: contents of the slots.
        available: slots that can be sampled.
        cycle: order in which the slots were allocated.

    Attributes:
        available: the argument.
    """

    def __init__(self, columns: Columns, available: AvailableSlots, cycle: SlotCycle) -> None:
        self.available = available
        self._columns = columns
        self._cycle = cycle
        self._segments = Segments(columns, available)

    def __len__(self) -> int:
        """Return the number of transitions that can be sampled."""
        return len(self.available)

    def values(self, slots: Indices) -> NDArray[np.float32]:
        """Return the reward terms (n, T) of the transitions in ``slots`` (n,), in the order of ``terms``."""
        return self._columns.values.take(slots, 0)

    def sample_indices(self, n: int, rng: np.random.Generator) -> Indices:
        """Draw ``n`` transitions uniformly with replacement; return their slots (n,).

        Raises:
            ValueError: if the ring is empty.
        """
        if not len(self):
            raise ValueError("the replay ring is empty: append transitions before sampling")
        return self.available.draw(n, rng)

    def gather(
        self,
        indices: Indices,
        *,
        gamma: float,
        n_step: int,
        reward: Reward,
        action_chunk: int = 1,
        keys: Collection[str] | None = None,
        out: Batch | None = None,
        rng: np.random.Generator | None = None,
    ) -> Batch:
        """Return the transitions in slots ``indices`` as a batch, with n-step returns and action chunks.

        The discounted rewards of up to ``n_step`` steps are summed. The sum has fewer steps if the segment ends
        earlier: by termination, truncation or a gap, or because it has no newer transition. With k steps summed,
        ``next_observation`` is the observation after k steps and ``discount`` is ``gamma**k``, or 0 if the last of the
        steps terminated.

        With ``action_chunk`` h, ``action`` and ``proposed_action`` are the concatenated actions of the step and of the
        h - 1 steps after it, (..., h A). If the segment ends earlier, its last action is repeated. The return ends at
        the same step, so the repeated actions contribute nothing to it. After termination the row is therefore exact,
        since later actions have no effect. Otherwise it estimates the value of a chunk that is cut short there, after
        which the policy decides again, as it does after an intervention.

        Args:
            indices: slots, (n,) or (minibatches, rows), for example from :meth:`sample_indices`.
            gamma: discount per step.
            n_step: largest number of steps to sum, 1 or more.
            reward: combines the reward terms into one number.
            action_chunk: number of steps whose actions form the action of a row, 1 to ``n_step``.
            keys: observation keys to return; None: all. Ignored with ``out``, whose keys decide.
            out: arrays to write into, each with leading axes ``indices.shape``; None: new arrays.
            rng: draws the view of the images whose features each observation gets; None: the first view.

        Raises:
            IndexError: if a slot holds no transition.
            ConfigError: if ``reward`` needs an unknown term.
            ValueError: if ``action_chunk`` is not in [1, ``n_step``].
        """
        if not 1 <= action_chunk <= n_step:
            raise ValueError(f"action_chunk must be in [1, n_step = {n_step}], got {action_chunk}")
        self._check_indices(indices)
        if out is None:
            out = self.empty_batch(indices.shape, action_chunk, keys)
        columns = self._columns
        sums = self._segments.sum_rewards(indices, self._columns.terms, gamma=gamma, n_step=n_step, reward=reward)
        out["reward"][...] = sums.total
        np.multiply(sums.discount, ~columns.terminated.take(sums.last), out=out["discount"])
        columns.take_actions(self._segments.chunks(indices, action_chunk), out)
        columns.take_observations("observation", indices, out, rng)
        columns.take_observations("next_observation", columns.next.take(sums.last), out, rng)
        return out

    def compute_features(self) -> None:
        """Compute all features that have not been computed yet, in the order of the slots."""
        self._columns.compute_features(np.arange(self._cycle.filled))

    def empty_batch(self, shape: tuple[int, ...], action_chunk: int = 1, keys: Collection[str] | None = None) -> Batch:
        """Return uninitialised arrays for :meth:`gather`, with leading axes ``shape``."""
        return self._columns.empty_batch(shape, action_chunk, keys)

    def labels(self, indices: Indices) -> Batch:
        """Return the other fields of the transitions in slots ``indices``.

        ``source`` uint8 (:class:`Source`), ``policy_version`` int64 (-1: none), ``success`` int8 (1, 0, or -1:
        unknown), ``terminated`` and ``truncated`` bool; each shaped like ``indices``.

        Raises:
            IndexError: if a slot holds no transition.
        """
        self._check_indices(indices)
        arrays = self._columns.state()
        names = ("source", "policy_version", "success", "terminated", "truncated")
        return {name: arrays[name].take(indices) for name in names}

    def rows(self, slots: Indices, keys: Collection[str] | None = None) -> Batch:
        """Return the transitions in ``slots`` (n,) as rows for a :class:`~robo_rl.core.RewardModule`.

        ``keys`` selects observations (None: all).
        """
        self._check_indices(slots)
        return self._columns.rows(slots, keys)

    def following(self, slots: Indices) -> tuple[Indices, NDArray[np.bool_]]:
        """Return the slots after ``slots``, and whether they hold transitions of the same segments."""
        return self._segments.follow(slots)

    def follows(self, slot: int, following: int) -> bool:
        """Return whether the transition in slot ``following`` comes directly after that in ``slot`` in a segment."""
        return bool(self._columns.next[slot] == following)

    def sample_rows(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw ``n`` transitions uniformly with replacement, as rows for a :class:`~robo_rl.core.RewardModule`.

        Raises:
            ValueError: if the ring is empty.
        """
        return self._columns.rows(self.sample_indices(n, rng))

    def sample_segments(
        self, n: int, length: int, rng: np.random.Generator, *, newest: int | None = None
    ) -> Batch | None:
        """Draw ``n`` segments of ``length`` transitions uniformly with replacement: arrays (n, length, ...).

        Args:
            n: number of segments.
            length: transitions in each segment.
            rng: random generator.
            newest: segments begin among this many of the newest transitions; None: anywhere.

        Returns:
            Rows for a :class:`~robo_rl.core.RewardModule`, or None if there is no such segment.
        """
        first = np.sort(self.available.members)
        if newest is not None:
            first = self._cycle.newest(first, newest)
        chain = [first]
        for _ in range(length - 1):
            following = self._columns.next.take(chain[-1])
            continues = self.available.contains(following)
            chain = [slots[continues] for slots in chain] + [following[continues]]
        if not chain[0].size:
            return None
        return self._columns.rows(np.stack(chain, axis=1)[rng.integers(0, chain[0].size, n)])

    def everything(self, reward: Reward, keys: Collection[str] | None = None) -> Batch:
        """Return all transitions with one-step, undiscounted returns; ``keys`` selects observations (None: all)."""
        return self.gather(np.sort(self.available.members), gamma=1.0, n_step=1, reward=reward, keys=keys)

    def _check_indices(self, indices: Indices) -> None:
        if indices.size and (indices.min() < 0 or indices.max() >= self._cycle.capacity):
            raise IndexError(f"slots must be in [0, {self._cycle.capacity}), got {indices.min()} to {indices.max()}")
        if not self.available.contains(indices).all():
            raise IndexError(
                "some slots hold no transition: use slots that sample_indices returned after the last append"
            )

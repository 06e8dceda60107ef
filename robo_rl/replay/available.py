"""The slots of the replay memory whose transitions can be drawn, and what is known of their episodes."""

import numpy as np

from robo_rl.core import TEACHERS

from .columns import Columns
from .encoding import SUCCESS_UNKNOWN
from .slots import Indices, SlotSet

IS_TEACHER = np.isin(np.arange(256), TEACHERS)
"""By number of a :class:`~robo_rl.core.Source`: whether its actions are to be imitated."""


class AvailableSlots(SlotSet):
    """Slots whose transitions can be drawn.

    Args:
        columns: what the slots hold.

    Attributes:
        outcome: whether the episode of a slot's transition ended in success, (capacity,) int8: 1, 0, or -1 where that
            is not known, or the episode goes on, or the slot is not available.
        own_success: whether that episode ended in success and the policy alone chose its actions from this step on,
            (capacity,) bool. What came before a person took over is not worth imitating.
    """

    def __init__(self, columns: Columns) -> None:
        capacity = len(columns.source)
        super().__init__(capacity)
        self._columns = columns
        self.outcome = np.full(capacity, SUCCESS_UNKNOWN, np.int8)
        self.own_success = np.zeros(capacity, np.bool_)
        self._previous: Indices = np.zeros(capacity, np.intp)
        # None where they may have changed: each learner step asks, and a look at all slots takes long.
        self._interventions: Indices | None = None
        self._not_failed: Indices | None = None

    @property
    def memory_bytes(self) -> int:
        """Bytes of what is kept for each slot, without :attr:`order`."""
        return sum(array.nbytes for array in (self.position, self.outcome, self.own_success, self._previous))

    def add(self, slot: int) -> None:
        super().add(slot)
        self._forget_subsets(slot)
        columns = self._columns
        self._previous[columns.next[slot]] = slot
        if columns.terminated[slot] or columns.truncated[slot]:
            self._note_ends(np.array([slot], np.intp))

    def discard(self, slot: int) -> None:
        super().discard(slot)
        self.outcome[slot] = SUCCESS_UNKNOWN
        self.own_success[slot] = False
        self._forget_subsets(slot)

    def restore(self, count: int) -> None:
        super().restore(count)
        self._interventions = self._not_failed = None
        self.outcome.fill(SUCCESS_UNKNOWN)
        self.own_success.fill(False)
        columns, members = self._columns, self.members
        self._previous[columns.next[members]] = members
        self._note_ends(members[columns.terminated[members] | columns.truncated[members]])

    @property
    def interventions(self) -> Indices:
        """Slots (n,), in order, of the transitions whose action a human or a scripted expert chose."""
        if self._interventions is None:
            slots = np.sort(self.members)
            self._interventions = slots[IS_TEACHER[self._columns.source[slots]]]
        return self._interventions

    @property
    def not_failed(self) -> Indices:
        """Slots (n,), in order, of transitions whose episode is not known to have ended without success."""
        if self._not_failed is None:
            slots = np.sort(self.members)
            self._not_failed = slots[self.outcome[slots] != 0]
        return self._not_failed

    def _forget_subsets(self, slot: int) -> None:
        """Drop the cached subsets that change when ``slot`` is added or removed."""
        self._not_failed = None
        if IS_TEACHER[self._columns.source[slot]]:
            self._interventions = None

    def _note_ends(self, slots: Indices) -> None:
        """Take note of the outcome of all transitions of the episodes that end in ``slots`` (n,)."""
        columns = self._columns
        success = columns.success[slots]
        taught = np.zeros(slots.shape, np.bool_)
        # From the ends on, a step of all episodes at a time: what is overwritten first changes nothing of the rest.
        while slots.size:
            taught |= IS_TEACHER[columns.source[slots]]
            self.outcome[slots] = success
            self.own_success[slots] = (success == 1) & ~taught
            previous = self._previous[slots]
            # The slot that came before may hold another transition by now.
            held = (columns.next[previous] == slots) & (self.position[previous] >= 0)
            slots, success, taught = previous[held], success[held], taught[held]

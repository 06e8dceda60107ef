"""Set of the replay buffer's slots that can be sampled, and the outcomes of their episodes."""

import numpy as np

from robo_rl.core import TEACHERS

from .columns import Columns
from .encoding import SUCCESS_UNKNOWN
from .slots import Indices, SlotSet

IS_TEACHER = np.isin(np.arange(256), TEACHERS)
"""Whether the actions of a source are to be imitated, indexed by the number of the :class:`~robo_rl.core.Source`."""


class AvailableSlots(SlotSet):
    """Slots whose transitions can be sampled.

    Args:
        columns: contents of the slots.

    Attributes:
        outcome: outcome of the episode of each slot's transition, (capacity,) int8: 1 for success, 0 for failure, -1 if
            the outcome is unknown, the episode is still open, or the slot is not available.
        own_success: whether that episode ended in success and only the policy chose the actions from this step on,
            (capacity,) bool. Actions of the policy that led to an intervention are not worth imitating.
    """

    def __init__(self, columns: Columns) -> None:
        capacity = len(columns.source)
        super().__init__(capacity)
        self._columns = columns
        self.outcome = np.full(capacity, SUCCESS_UNKNOWN, np.int8)
        self.own_success = np.zeros(capacity, np.bool_)
        self._previous: Indices = np.zeros(capacity, np.intp)
        # Cached, because every learner step reads them and searching all slots is slow. None: out of date.
        self._interventions: Indices | None = None
        self._not_failed: Indices | None = None

    @property
    def memory_bytes(self) -> int:
        """Bytes of the arrays with an element for each slot, without :attr:`order`."""
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
        """Slots (n,), in ascending order, of the transitions whose action a human or a scripted expert chose."""
        if self._interventions is None:
            slots = np.sort(self.members)
            self._interventions = slots[IS_TEACHER[self._columns.source[slots]]]
        return self._interventions

    @property
    def not_failed(self) -> Indices:
        """Slots (n,), in ascending order, of the transitions whose episode is not known to have failed."""
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
        """Store the outcome of all transitions of the episodes that end in ``slots`` (n,)."""
        columns = self._columns
        success = columns.success[slots]
        has_teacher = np.zeros(slots.shape, np.bool_)
        # Walk backwards from the ends, one step of all episodes at a time. The oldest steps are overwritten first, so
        # the walk may stop at a missing step.
        while slots.size:
            has_teacher |= IS_TEACHER[columns.source[slots]]
            self.outcome[slots] = success
            self.own_success[slots] = (success == 1) & ~has_teacher
            previous = self._previous[slots]
            # The previous slot may have been reused for another transition.
            is_linked = (columns.next[previous] == slots) & (self.position[previous] >= 0)
            slots, success, has_teacher = previous[is_linked], success[is_linked], has_teacher[is_linked]

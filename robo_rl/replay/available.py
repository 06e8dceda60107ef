"""The slots of the replay memory whose transitions can be drawn, and what is known of their episodes."""

import numpy as np

from robo_rl.core import TEACHERS

from .columns import Columns
from .encoding import SUCCESS_UNKNOWN
from .slots import Indices, SlotSet


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
        self._interventions: Indices | None = None  # None where they may have changed

    def add(self, slot: int) -> None:
        super().add(slot)
        if self._columns.source[slot] in TEACHERS:
            self._interventions = None
        self._previous[self._columns.next[slot]] = slot
        self._note_end(slot)

    def discard(self, slot: int) -> None:
        super().discard(slot)
        self.outcome[slot] = SUCCESS_UNKNOWN
        self.own_success[slot] = False
        if self._columns.source[slot] in TEACHERS:
            self._interventions = None

    def restore(self, count: int) -> None:
        super().restore(count)
        self._interventions = None
        self.outcome.fill(SUCCESS_UNKNOWN)
        self.own_success.fill(False)
        self._previous[self._columns.next[self.members]] = self.members
        for slot in self.members:
            self._note_end(slot)

    @property
    def interventions(self) -> Indices:
        """Slots (n,), in order, of the transitions whose action a human or a scripted expert chose."""
        if self._interventions is None:  # each learner step asks, and a look at all slots takes long
            slots = np.sort(self.members)
            self._interventions = slots[np.isin(self._columns.source[slots], TEACHERS)]
        return self._interventions

    @property
    def not_failed(self) -> Indices:
        """Slots (n,), in order, of transitions whose episode is not known to have ended without success."""
        slots: Indices = np.sort(self.members)
        not_failed: Indices = slots[self.outcome[slots] != 0]
        return not_failed

    def _note_end(self, slot: int) -> None:
        """If an episode ends in ``slot``, take note of the outcome of all its transitions."""
        columns = self._columns
        if not (columns.terminated[slot] or columns.truncated[slot]):
            return
        episode = [slot]
        # The slot that came before may hold another transition by now.
        while columns.next[previous := self._previous[episode[-1]]] == episode[-1] and self.position[previous] >= 0:
            episode.append(previous)
        self.outcome[episode] = success = columns.success[slot]
        # From the end on: what is overwritten first changes nothing of the rest.
        taught = np.logical_or.accumulate(np.isin(columns.source[episode], TEACHERS))
        self.own_success[episode] = (success == 1) & ~taught

"""Reward terms that modules compute: when, and of which transitions in the replay memory."""

from collections.abc import Iterator, Set
from typing import NamedTuple

import numpy as np

from robo_rl.core import CheckpointError, Scorer, State

from .available import AvailableSlots
from .columns import Columns
from .cycle import SlotCycle
from .slots import Indices


class _Relabelled(NamedTuple):
    """How far :meth:`ComputedTerms.relabel` has come: terms before ``slot`` are of ``version`` of the modules."""

    version: int
    slot: int


_NOTHING_RELABELLED = _Relabelled(-1, 0)


class ComputedTerms:
    """Computes the terms of what is held back, and those of learned modules again where they are out of date.

    Args:
        columns: of the ring, in which terms are written.
        available: slots of the ring that can be drawn.
        cycle: tells how many slots are filled.

    Attributes:
        held: slots that are held back until their terms are known, in order of arrival.
    """

    def __init__(self, columns: Columns, available: AvailableSlots, cycle: SlotCycle) -> None:
        self._columns = columns
        self._available = available
        self._cycle = cycle
        self.held: dict[int, None] = {}
        self._relabelled = _NOTHING_RELABELLED

    def score_held(self, scorer: Scorer, open_ends: Set[int], online: bool) -> Iterator[Indices]:
        """Compute the terms of what is held back, and make it available; yield its slots (n,), a segment at a time.

        Args:
            scorer: what computes.
            open_ends: slots of the newest observations of the episodes that are still open.
            online: leave what cannot be scored without waiting for somebody's answer.
        """
        for segment in self.held_segments():
            if scorer.whole_episodes and self._columns.next[segment[-1]] in open_ends:
                continue
            slots = np.array(segment, dtype=np.intp)
            if online and not scorer.ready(self._columns.rows(slots[:1])):
                continue
            self._columns.write_terms(slots, scorer.score(self._columns.rows(slots), online=online), scorer.version)
            for slot in segment:
                del self.held[slot]
                self._available.add(slot)
            yield slots

    def rescore(self, slots: Indices, scorer: Scorer, n_step: int = 1) -> None:
        """Compute terms again for the transitions in ``slots`` and the ``n_step - 1`` after each, where out of date.

        Args:
            slots: of any shape.
            scorer: what computes.
            n_step: how many steps from there on are needed, as in :meth:`.RingRows.gather`.
        """
        for step in range(n_step):
            if step:
                slots = self._columns.next.take(slots)
                slots = slots[self._available.contains(slots)]
            self._rescore(np.unique(slots[self._columns.terms_version.take(slots) != scorer.version]), scorer)

    def relabel(self, scorer: Scorer, most: int) -> int:
        """Compute out-of-date terms again, of ``most`` transitions at most; return of how many.

        Calls go through the slots in order, and begin anew when a module has changed. What is already up to date is
        passed over, so a ring that was loaded goes on like the one that was saved; where all is, a call costs nothing.
        """
        version = scorer.version
        first = self._relabelled.slot if self._relabelled.version == version else 0
        stale = first + np.flatnonzero(self._columns.terms_version[first : self._cycle.filled] != version)
        # What is not there yet, or held back, is scored by the newest modules when it is.
        stale = stale[self._available.contains(stale)][:most]
        self._rescore(stale, scorer)
        done = int(stale[-1]) + 1 if stale.size == most else len(self._columns.terms_version)
        self._relabelled = _Relabelled(version, done)
        return stale.size

    def restart(self, held: dict[int, None]) -> None:
        """Go on with other transitions, of which those in ``held`` are held back."""
        self.held = held
        self._relabelled = _NOTHING_RELABELLED

    def state(self) -> State:
        """Return all terms, as views: what to keep of a ring whose transitions come from a data set."""
        filled = self._cycle.filled
        return {"terms": self._columns.values[:filled], "terms_version": self._columns.terms_version[:filled]}

    def load(self, state: State) -> None:
        """Take over the :meth:`state` of a ring with the same transitions; what is held back becomes available.

        Raises:
            CheckpointError: if it is of another number of transitions or terms.
        """
        for name, ours in self.state().items():
            if name not in state or state[name].shape != ours.shape or state[name].dtype != ours.dtype:
                found = state[name].shape if name in state else "nothing"
                raise CheckpointError(
                    f"reward terms of the demonstrations: expected {name!r} of shape {ours.shape}, found {found}; "
                    "resume with the data set of the run"
                )
            ours[...] = state[name]
        for slot in self.held:
            self._available.add(slot)
        self.restart({})

    def held_segments(self) -> list[list[int]]:
        """Return the slots that are held back, as unbroken stretches of steps."""
        segments: list[list[int]] = []
        by_first_observation: dict[int, list[int]] = {}
        for slot in self.held:
            segment = by_first_observation.pop(slot, None)
            if segment is None:
                segment = []
                segments.append(segment)
            segment.append(slot)
            by_first_observation[int(self._columns.next[slot])] = segment
        return segments

    def _rescore(self, stale: Indices, scorer: Scorer) -> None:
        if stale.size:
            self._columns.write_terms(stale, scorer.rescore(self._columns.rows(stale)), scorer.version)

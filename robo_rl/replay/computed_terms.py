"""Reward terms that modules compute for the transitions in the replay buffer."""

from collections.abc import Iterator, Set
from typing import NamedTuple

import numpy as np

from robo_rl.core import CheckpointError, Scorer, State

from .available import AvailableSlots
from .columns import Columns
from .cycle import SlotCycle
from .slots import Indices


class _Relabelled(NamedTuple):
    """Progress of :meth:`ComputedTerms.relabel`: terms before ``slot`` were computed by ``version`` of the modules."""

    version: int
    slot: int


_NOTHING_RELABELLED = _Relabelled(-1, 0)


class ComputedTerms:
    """Computes the terms of withheld transitions, and recomputes terms of learned modules that are out of date.

    Args:
        columns: arrays of the buffer, which terms are written to.
        available: slots of the buffer that can be sampled.
        cycle: order of the slots, with the number of filled ones.

    Attributes:
        held: slots that are withheld from sampling until their terms are computed, in order of arrival.
    """

    def __init__(self, columns: Columns, available: AvailableSlots, cycle: SlotCycle) -> None:
        self._columns = columns
        self._available = available
        self._cycle = cycle
        self.held: dict[int, None] = {}
        self._relabelled = _NOTHING_RELABELLED

    def score_held(self, scorer: Scorer, open_ends: Set[int], online: bool) -> Iterator[Indices]:
        """Compute the terms of withheld transitions and make these available; yield the slots (n,) of each segment.

        Args:
            scorer: computes the terms.
            open_ends: slots of the newest observations of the episodes that are still open.
            online: skip segments that cannot be scored without waiting for an answer.
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
        """Recompute out-of-date terms of the transitions in ``slots`` and of the ``n_step - 1`` after each.

        Args:
            slots: slots, of any shape.
            scorer: computes the terms.
            n_step: number of steps from each slot on, as in :meth:`.RingRows.gather`.
        """
        for step in range(n_step):
            if step:
                slots = self._columns.next.take(slots)
                slots = slots[self._available.contains(slots)]
            self._rescore(np.unique(slots[self._columns.terms_version.take(slots) != scorer.version]), scorer)

    def relabel(self, scorer: Scorer, most: int) -> int:
        """Recompute out-of-date terms of at most ``most`` transitions; return the number of recomputed transitions.

        Successive calls go through the slots in order, and start over when a module has changed. Terms that are up to
        date are skipped, so a loaded buffer continues exactly like the saved one. If all are up to date, a call costs
        nothing.
        """
        version = scorer.version
        first = self._relabelled.slot if self._relabelled.version == version else 0
        stale = first + np.flatnonzero(self._columns.terms_version[first : self._cycle.filled] != version)
        # Slots without a transition are left out, and so are withheld ones, which the newest modules will score later.
        stale = stale[self._available.contains(stale)][:most]
        self._rescore(stale, scorer)
        end = int(stale[-1]) + 1 if stale.size == most else len(self._columns.terms_version)
        self._relabelled = _Relabelled(version, end)
        return stale.size

    def restart(self, held: dict[int, None]) -> None:
        """Start over after the transitions were replaced; those in the slots ``held`` are withheld."""
        self.held = held
        self._relabelled = _NOTHING_RELABELLED

    def state(self) -> State:
        """Return all terms, as views. This suffices to save a buffer whose transitions come from a data set."""
        filled = self._cycle.filled
        return {"terms": self._columns.values[:filled], "terms_version": self._columns.terms_version[:filled]}

    def load(self, state: State) -> None:
        """Restore the :meth:`state` of a buffer with the same transitions; withheld ones become available.

        Raises:
            CheckpointError: if it has another number of transitions or terms.
        """
        for name, target in self.state().items():
            if name not in state or state[name].shape != target.shape or state[name].dtype != target.dtype:
                shape = state[name].shape if name in state else "nothing"
                raise CheckpointError(
                    f"reward terms of the demonstrations: expected {name!r} of shape {target.shape}, found {shape}; "
                    "resume with the data set of the run"
                )
            target[...] = state[name]
        for slot in self.held:
            self._available.add(slot)
        self.restart({})

    def held_segments(self) -> list[list[int]]:
        """Return the withheld slots, grouped by segment."""
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

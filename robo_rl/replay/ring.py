"""Replay buffer in memory."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from robo_rl.core import (
    CheckpointError,
    ConfigError,
    EnvSpec,
    FeatureExtractor,
    Metrics,
    Scorer,
    Source,
    State,
    Transition,
    parse_json,
    reading,
    whole_number,
)

from .available import AvailableSlots
from .columns import Columns, load_columns
from .computed_terms import ComputedTerms
from .cycle import SlotCycle
from .rows import RingRows
from .saved_links import check_saved
from .slots import Indices


class _Tail(NamedTuple):
    """Newest transition of an actor whose episode is still open, and the slot of its next observation."""

    session: int
    episode: int
    sequence: int
    slot: int


class ReplayRing:
    """Preallocated replay buffer that overwrites its oldest data.

    **Layout.** A slot holds one observation and, once it has arrived, the transition that begins there: action,
    reward terms, flags and ``next``, the slot of the next observation. A transition that follows the newest one of
    its actor uses the slot that already holds its observation. Any other transition (a new episode, or a gap in the
    sequence numbers) starts a segment in a fresh slot. Each observation is therefore stored once, a segment of L steps
    takes L + 1 slots, and true final observations are stored as well. Slots are allocated in order of arrival. Since
    ``next`` is a link, the transitions of several actors may interleave: segments stay intact and take no more memory.

    **Validity.** A slot can be sampled while it holds a transition. The slot in ``next`` is always allocated after the
    slot itself, and hence overwritten after it. A stored transition therefore always has its own next observation,
    also where the buffer wraps around. An observation is never paired with one of another segment.

    **Computed terms.** Reward modules add terms to those that the backend reports. A buffer with such terms withholds
    new transitions from sampling until :meth:`score_held` has computed them: after each step or, for modules that score
    whole episodes, after the episode has ended. Terms of learned modules are recomputed when they are older than the
    module: by ``computed.rescore`` before rows are used, and by ``computed.relabel`` a few at a time.

    Not thread-safe.

    Args:
        capacity: number of slots, at least 2. Each slot holds one observation, so an episode takes one slot more than
            it has transitions.
        spec: observation keys and reward terms to store. Additional keys and terms of transitions (images for an agent
            that uses only states, for example) are ignored.
        added_terms: names of the computed terms.
        extractor: computes the features that ``rows.gather`` returns instead of images; None: it returns images.

    Attributes:
        capacity: the argument.
        spec: the argument.
        terms: names of all reward terms.
        rows: access to the transitions, for sampling and reading.
        computed: the terms that reward modules compute.
        newest: slot of the transition that was stored last; -1 after a start.

    Raises:
        ConfigError: if the capacity is too small, or too large for the memory of this machine.
    """

    def __init__(
        self,
        capacity: int,
        spec: EnvSpec,
        added_terms: tuple[str, ...] = (),
        extractor: FeatureExtractor | None = None,
    ) -> None:
        if capacity < 2:
            raise ConfigError(f"replay capacity must be 2 or more, got {capacity}")
        self.capacity = capacity
        self.spec = spec
        self._columns = Columns(capacity, spec, added_terms, extractor)
        self.terms = self._columns.terms
        self._holds_back = bool(added_terms)
        self._cycle = SlotCycle(capacity)
        self._available = AvailableSlots(self._columns)
        self.rows = RingRows(self._columns, self._available, self._cycle)
        self.computed = ComputedTerms(self._columns, self._available, self._cycle)
        self._tails: dict[str, _Tail] = {}
        self.newest = -1

    def __len__(self) -> int:
        """Return the number of transitions that can be sampled."""
        return len(self._available)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the preallocated arrays; the operating system provides the memory when slots are first used."""
        return sum(array.nbytes for array in self._arrays().values()) + self._available.memory_bytes

    def metrics(self) -> Metrics:
        """Return the number of transitions, the fraction of actions by humans, and the bytes of memory."""
        human = self._columns.source[self._available.members] == Source.HUMAN
        return {
            "transitions": float(len(self)),
            "human_fraction": float(human.mean()) if len(self) else 0.0,
            "memory_bytes": float(self.memory_bytes),
        }

    # --- writing -----------------------------------------------------------------------------------------------------

    def append(self, transitions: Sequence[Transition]) -> int:
        """Store all of ``transitions`` in this order, or none on an error; return their number.

        Raises:
            SpecError: if an array does not match the spec, or a reward term is missing or not finite.
        """
        shared = [
            number > 0 and transition.observation is transitions[number - 1].next_observation
            for number, transition in enumerate(transitions)
        ]
        rewards = list(map(self._columns.check, transitions, shared))
        for transition, terms, is_shared in zip(transitions, rewards, shared, strict=True):
            self._append(transition, terms, is_shared)
        return len(transitions)

    def _append(self, transition: Transition, terms: list[float], shared: bool) -> None:
        slot = self._continued_slot(transition, shared)
        if slot is None:
            slot = self._allocate()
            self._columns.write_observation(slot, transition.observation)
        self._tails.pop(transition.actor, None)
        following = self._allocate()
        self._columns.write_observation(following, transition.next_observation)
        self._columns.write(slot, transition, terms, following)
        self.newest = slot
        if self._holds_back:
            self.computed.held[slot] = None
        else:
            self._available.add(slot)
        if not (transition.terminated or transition.truncated):
            self._tails[transition.actor] = _Tail(
                transition.session, transition.episode, transition.sequence, following
            )

    def _continued_slot(self, transition: Transition, shared: bool) -> int | None:
        """Return the slot that already holds the transition's observation, or None if the transition starts a segment.

        Besides :meth:`Transition.follows`, two conditions must hold: the slot is not the next one to be overwritten,
        and the observation equals the stored one. Otherwise a new segment keeps the row exactly as it arrived.
        """
        tail = self._tails.get(transition.actor)
        if tail is None or tail.slot == self._cycle.cursor:
            return None
        expected = (tail.session, tail.episode, tail.sequence + 1)
        if (transition.session, transition.episode, transition.sequence) != expected:
            return None
        return tail.slot if shared or self._columns.holds(tail.slot, transition.observation) else None

    def _allocate(self) -> int:
        """Allocate the oldest slot; remove its transition, and the open episode whose newest observation it held."""
        slot = self._cycle.advance()
        self._available.discard(slot)
        self.computed.held.pop(slot, None)
        for actor in [actor for actor, tail in self._tails.items() if tail.slot == slot]:
            del self._tails[actor]
        return slot

    def end_episodes(self, actor: str | None = None) -> None:
        """Mark the open episodes of ``actor`` (None: of all actors) as ended.

        This is needed if a robot stopped without a last step that would end the episode.
        """
        if actor is None:
            self._tails.clear()
        else:
            self._tails.pop(actor, None)

    def score_held(self, scorer: Scorer, *, online: bool) -> Indices:
        """Compute the added terms of withheld transitions and make these available; return their slots (n,) in order.

        If ``scorer`` needs whole episodes, an open episode stays withheld. With ``online``, so does an episode that
        ``scorer`` cannot score without waiting for an answer.
        """
        open_ends = {tail.slot for tail in self._tails.values()}
        released = list(self.computed.score_held(scorer, open_ends, online))
        return np.concatenate(released) if released else np.zeros(0, dtype=np.intp)

    # --- state -------------------------------------------------------------------------------------------------------

    def _arrays(self) -> State:
        return self._columns.state() | {"order": self._available.order}

    def state(self) -> State:
        """Return everything that is needed to continue exactly from this point.

        The arrays are views of the filled part of the buffer, not copies: save them before the next ``append``.
        """
        facts = {
            "capacity": self.capacity,
            "cursor": self._cycle.cursor,
            "count": len(self),
            "reward_terms": list(self.terms),
            "held": list(self.computed.held),
            "tails": {actor: list(tail) for actor, tail in self._tails.items()},
            "features": self._columns.fingerprint,
        }
        state = {name: column[: self._cycle.filled] for name, column in self._arrays().items()}
        return state | {"facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)}

    def load(self, state: State) -> None:
        """Restore ``state``. Features of another extractor are discarded and recomputed from the images.

        Raises:
            CheckpointError: if the state is of a buffer with another capacity, other observations, actions or reward
                terms.
        """
        if "facts" not in state:
            raise CheckpointError(f"replay: expected an array 'facts', found {sorted(state)}")
        with reading("replay", CheckpointError, "use another checkpoint"):
            self._load(state)

    def _load(self, state: State) -> None:
        facts = parse_json(state["facts"].tobytes(), "replay", finite=False)
        for name, expected in (("capacity", self.capacity), ("reward_terms", list(self.terms))):
            if facts[name] != expected:
                raise CheckpointError(
                    f"replay: expected {name} {expected}, found {facts[name]}; resume with the configuration of the run"
                )
        columns, saved_columns = self._arrays(), {name: array for name, array in state.items() if name != "facts"}
        if self._columns.features is not None:
            self._columns.features.clear()
        if facts.get("features") != self._columns.fingerprint:
            columns, saved_columns = (
                {name: array for name, array in arrays.items() if not name.startswith("features")}
                for arrays in (columns, saved_columns)
            )
        self._cycle.filled = load_columns(columns, saved_columns)
        self._cycle.cursor = whole_number(facts["cursor"], 0, self.capacity - 1)
        self._tails = {actor: _Tail(*map(whole_number, tail)) for actor, tail in facts["tails"].items()}
        held = dict.fromkeys(map(whole_number, facts.get("held", ())))
        count = whole_number(facts["count"], 0, self._cycle.filled)
        tails = [tail.slot for tail in self._tails.values()]
        check_saved(self._columns, self._cycle, self._available.order[:count], held, tails)
        self.computed.restart(held)
        self._available.restore(count)

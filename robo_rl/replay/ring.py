"""Replay memory in RAM."""

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
from .slots import Indices


class _Tail(NamedTuple):
    """The newest transition of an actor whose episode is still open, and the slot of its next observation."""

    session: int
    episode: int
    sequence: int
    slot: int


class ReplayRing:
    """Preallocated replay memory; the oldest data is overwritten.

    **Layout.** One slot holds one observation and, once it is known, the transition that begins there: action,
    reward terms, flags and ``next``, the slot of the next observation. A transition that follows the newest one of
    its actor begins in the slot that already holds its observation; any other (a new episode, a gap in the
    sequence numbers) starts a segment in a fresh slot. So each observation is stored once, a segment of L steps
    takes L + 1 slots, and true final observations are stored as well. Slots are handed out in order of arrival;
    since ``next`` is a link, several actors may take turns without breaking segments and at no cost in memory.

    **Validity.** A slot can be sampled while it holds a transition. ``next`` is always handed out later than the
    slot itself, hence overwritten later: a transition that is held still has its own next observation, on both sides
    of the ring's seam. Nothing is ever paired across segments.

    **Computed terms.** Reward modules add terms to those that the backend reports. A ring with such terms holds back
    what is appended until :meth:`score_held` has computed them: a step at a time or, for modules that judge whole
    episodes, when the episode has ended. Terms of learned modules are computed again wherever they are older than the
    module: by ``computed.rescore``, before rows are used, and by ``computed.relabel``, a few at a time.

    Not thread-safe.

    Args:
        capacity: slots, at least 2: observations held, so about one more per episode than transitions.
        spec: what is stored: its observation keys and reward terms. Transitions may carry more keys and terms
            (images for an agent that looks only at states); those are left out.
        added_terms: names of the computed terms.
        extractor: makes the features that ``rows.gather`` returns in the place of images; None: it returns images.

    Attributes:
        capacity: as given.
        spec: as given.
        terms: names of all reward terms.
        rows: the transitions, to be drawn and read.
        computed: computes terms again.

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

    def __len__(self) -> int:
        """Return the number of transitions that can be sampled."""
        return len(self._available)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the preallocated arrays; the system hands them out as slots are first used."""
        return sum(array.nbytes for array in self._arrays().values()) + self._available.memory_bytes

    def metrics(self) -> Metrics:
        """Return the number of transitions, the share of actions by humans, and the bytes of memory."""
        human = self._columns.source[self._available.members] == Source.HUMAN
        return {
            "transitions": float(len(self)),
            "human_fraction": float(human.mean()) if len(self) else 0.0,
            "memory_bytes": float(self.memory_bytes),
        }

    # --- writing -----------------------------------------------------------------------------------------------------

    def append(self, transitions: Sequence[Transition]) -> int:
        """Store all of ``transitions``, in this order, or none; return how many.

        Raises:
            SpecError: if an array does not fit the spec, or a reward term is missing or not finite.
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
        if self._holds_back:
            self.computed.held[slot] = None
        else:
            self._available.add(slot)
        if not (transition.terminated or transition.truncated):
            self._tails[transition.actor] = _Tail(
                transition.session, transition.episode, transition.sequence, following
            )

    def _continued_slot(self, transition: Transition, shared: bool) -> int | None:
        """Return the slot that holds the transition's observation already, or None if it starts a segment.

        The condition is :meth:`Transition.follows`, and two more: the slot is not the very next to be overwritten,
        and the observation is the stored one (a segment is started otherwise, so a row is always as it came).
        """
        tail = self._tails.get(transition.actor)
        if tail is None or tail.slot == self._cycle.cursor:
            return None
        expected = (tail.session, tail.episode, tail.sequence + 1)
        if (transition.session, transition.episode, transition.sequence) != expected:
            return None
        return tail.slot if shared or self._columns.holds(tail.slot, transition.observation) else None

    def _allocate(self) -> int:
        """Hand out the oldest slot and forget the transition and the open episode it belonged to."""
        slot = self._cycle.advance()
        self._available.discard(slot)
        self.computed.held.pop(slot, None)
        for actor in [actor for actor, tail in self._tails.items() if tail.slot == slot]:
            del self._tails[actor]
        return slot

    def end_episodes(self, actor: str | None = None) -> None:
        """Take note that no open episode goes on, of ``actor`` or anybody: robots stopped, and no step tells it."""
        if actor is None:
            self._tails.clear()
        else:
            self._tails.pop(actor, None)

    def score_held(self, scorer: Scorer, *, online: bool) -> Indices:
        """Compute the added terms of what is held back, and make it available; return the slots (n,) in order.

        Where ``scorer`` needs whole episodes, an episode that is still open stays held back; so does, ``online``, one
        that it cannot score without waiting for somebody's answer.
        """
        open_ends = {tail.slot for tail in self._tails.values()}
        released = list(self.computed.score_held(scorer, open_ends, online))
        return np.concatenate(released) if released else np.zeros(0, dtype=np.intp)

    # --- state -------------------------------------------------------------------------------------------------------

    def _arrays(self) -> State:
        return self._columns.state() | {"order": self._available.order}

    def state(self) -> State:
        """Return everything needed to go on exactly as from here.

        The arrays are views of the filled part of this memory, not copies: write them before the next ``append``.
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
        """Go on from ``state``. Features of another extractor are left out and computed again from the images.

        Raises:
            CheckpointError: if it is of a ring with another capacity, other observations, actions or reward terms.
        """
        if "facts" not in state:
            raise CheckpointError(f"replay: expected an array 'facts', found {sorted(state)}")
        with reading("replay", CheckpointError, "use another checkpoint"):
            self._load(state)

    def _load(self, state: State) -> None:
        facts = parse_json(state["facts"].tobytes(), "replay", finite=False)
        for name, ours in (("capacity", self.capacity), ("reward_terms", list(self.terms))):
            if facts[name] != ours:
                raise CheckpointError(
                    f"replay: expected {name} {ours}, found {facts[name]}; resume with the configuration of the run"
                )
        columns, saved = self._arrays(), {name: array for name, array in state.items() if name != "facts"}
        if self._columns.features is not None:
            self._columns.features.clear()
        if facts.get("features") != self._columns.fingerprint:
            columns, saved = (
                {name: array for name, array in arrays.items() if not name.startswith("features")}
                for arrays in (columns, saved)
            )
        load_columns(columns, saved)
        self._cycle.filled = len(state["order"])
        self._cycle.cursor = whole_number(facts["cursor"], 0, self.capacity)
        self._tails = {actor: _Tail(*map(whole_number, tail)) for actor, tail in facts["tails"].items()}
        self.computed.restart(dict.fromkeys(facts.get("held", ())))
        self._available.restore(whole_number(facts["count"], 0, self._cycle.filled))

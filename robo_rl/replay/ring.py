"""Replay memory in RAM."""

import json
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    TEACHERS,
    Batch,
    CheckpointError,
    ConfigError,
    EnvSpec,
    FeatureExtractor,
    Metrics,
    Reward,
    Scorer,
    Source,
    State,
    Transition,
    parse_json,
    reading,
    whole_number,
)

from .columns import Columns, load_columns
from .computed_terms import ComputedTerms
from .segments import Segments
from .slots import Indices, SlotSet

LEAST_DISCOUNTING = 1e-6
"""Of 1 - gamma: without discount, negative rewards for ever are as good as minus infinity."""


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
    module: by :meth:`rescore`, before rows are used, and by :meth:`relabel`, a few at a time.

    Not thread-safe.

    Args:
        capacity: slots, at least 2: observations held, so about one more per episode than transitions.
        spec: what is stored: its observation keys and reward terms. Transitions may carry more keys and terms
            (images for an agent that looks only at states); those are left out.
        added_terms: names of the computed terms.
        extractor: makes the features that :meth:`gather` returns in the place of images; None: it returns images.

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
        self._sampleable = SlotSet(capacity)
        self._computed = ComputedTerms(self._columns, self._sampleable)
        self._segments = Segments(self._columns, self._sampleable)
        self._cursor = 0
        self._filled = 0
        self._tails: dict[str, _Tail] = {}
        self._interventions: Indices | None = None  # of :meth:`interventions`; None where they may be others now

    def __len__(self) -> int:
        """Return the number of transitions that can be sampled."""
        return len(self._sampleable)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the preallocated arrays; the system hands them out as slots are first used."""
        return sum(array.nbytes for array in (*self._arrays().values(), self._sampleable.position))

    def metrics(self) -> Metrics:
        """Return the number of transitions, the share of actions by humans, and the bytes of memory."""
        human = self._columns.source[self._sampleable.members] == Source.HUMAN
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
            self._computed.held[slot] = None
        else:
            self._make_available(slot)
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
        if tail is None or tail.slot == self._cursor:
            return None
        expected = (tail.session, tail.episode, tail.sequence + 1)
        if (transition.session, transition.episode, transition.sequence) != expected:
            return None
        return tail.slot if shared or self._columns.holds(tail.slot, transition.observation) else None

    def _allocate(self) -> int:
        """Hand out the oldest slot and forget the transition and the open episode it belonged to."""
        slot = self._cursor
        self._cursor = (slot + 1) % self.capacity
        self._filled = max(self._filled, slot + 1)
        self._sampleable.discard(slot)
        if self._columns.source[slot] in TEACHERS:
            self._interventions = None
        self._computed.held.pop(slot, None)
        for actor in [actor for actor, tail in self._tails.items() if tail.slot == slot]:
            del self._tails[actor]
        return slot

    def _make_available(self, slot: int) -> None:
        self._sampleable.add(slot)
        if self._columns.source[slot] in TEACHERS:
            self._interventions = None

    def end_episodes(self, actor: str | None = None) -> None:
        """Take note that no open episode goes on, of ``actor`` or anybody: robots stopped, and no step tells it."""
        if actor is None:
            self._tails.clear()
        else:
            self._tails.pop(actor, None)

    # --- computed terms ----------------------------------------------------------------------------------------------

    def score_held(self, scorer: Scorer, *, online: bool) -> Indices:
        """Compute the added terms of what is held back, and make it available; return the slots (n,) in order.

        Where ``scorer`` needs whole episodes, an episode that is still open stays held back; so does, ``online``, one
        that it cannot score without waiting for somebody's answer.
        """
        released = []
        open_ends = {tail.slot for tail in self._tails.values()}
        for slots in self._computed.score_held(scorer, open_ends, online):
            for slot in slots.tolist():
                self._make_available(slot)
            released.append(slots)
        return np.concatenate(released) if released else np.zeros(0, dtype=np.intp)

    def rescore(self, slots: Indices, scorer: Scorer, n_step: int = 1) -> None:
        """Compute the terms of learned modules again for the transitions in ``slots``, where they are out of date.

        Args:
            slots: of any shape.
            scorer: what computes.
            n_step: how many steps from there on are needed, as in :meth:`gather`.
        """
        self._computed.rescore(slots, scorer, n_step)

    def relabel(self, scorer: Scorer, most: int) -> int:
        """Compute out-of-date terms of learned modules again, of ``most`` transitions at most; return of how many.

        Calls go through the ring in the order of its slots, and begin anew when a module has changed. What is already
        up to date is passed over, so a ring that was loaded goes on like the one that was saved; where all is, a call
        costs nothing.
        """
        return self._computed.relabel(scorer, self._filled, most)

    def terms_state(self) -> State:
        """Return all reward terms; what has to be kept of a ring whose transitions come from a data set."""
        return self._computed.state(self._filled)

    def load_terms(self, state: State) -> None:
        """Take over a ``terms_state`` of a ring with the same transitions; what is held back becomes available.

        Raises:
            CheckpointError: if it is of another number of transitions or terms.
        """
        self._computed.load(state, self._filled)
        for slot in self._computed.held:
            self._make_available(slot)
        self._computed.restart({})

    def values(self, slots: Indices) -> NDArray[np.float32]:
        """Return the reward terms (n, T) of the transitions in ``slots`` (n,), in the order of ``terms``."""
        return self._columns.values.take(slots, 0)

    # --- reading -----------------------------------------------------------------------------------------------------

    def sample_indices(self, n: int, rng: np.random.Generator) -> Indices:
        """Draw ``n`` transitions uniformly with replacement; return their slots (n,).

        Raises:
            ValueError: if the ring is empty.
        """
        if not len(self):
            raise ValueError("the replay ring is empty: append transitions before sampling")
        return self._sampleable.draw(n, rng)

    def not_failed(self) -> Indices:
        """Return the slots (n,), in order, of transitions whose episode is not known to have ended without success."""
        columns, held = self._columns, np.sort(self._sampleable.members)
        ends = columns.terminated | columns.truncated
        failed = np.zeros(self.capacity, np.bool_)
        failed[held] = ends[held] & (columns.success[held] == 0)
        oldest_first = held[np.argsort((held - self._cursor) % self.capacity)]
        for slot in oldest_first[::-1].tolist():  # what follows is in a newer slot, so its outcome is known by now
            if not ends[slot]:
                failed[slot] = failed[columns.next[slot]]  # False where that slot holds no transition
        return held[~failed[held]]

    def interventions(self) -> Indices:
        """Return the slots (n,), in order, of the transitions whose action a human or a scripted expert chose."""
        if self._interventions is None:  # each learner step asks, and a look at all slots is long
            slots = np.flatnonzero(np.isin(self._columns.source[: self._filled], TEACHERS))
            self._interventions = slots[self._sampleable.contains(slots)]
        return self._interventions

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
        """Return the transitions in slots ``indices`` as a batch, with n-step returns and chunks of actions.

        The rewards of up to ``n_step`` steps are summed, discounted; fewer where the segment ends earlier: by
        termination, truncation, a gap, or because nothing newer is known. With k steps summed, ``next_observation``
        is the one after k steps and ``discount`` is ``gamma**k``, or 0 if the last of them terminated.

        With ``action_chunk`` h, ``action`` and ``proposed_action`` are those of the step and of the h - 1 after it, one
        after the other (..., h A). Where the segment ends earlier the last action stands for those that are missing.
        The return stops at the same step, so it owes them nothing: after termination nothing that is done counts, and
        the row is exact; elsewhere it says what the chunk is worth if it is cut short there and the policy decides
        anew, as it does where a person took over.

        Args:
            indices: slots, (n,) or (minibatches, rows), as :meth:`sample_indices` gives them.
            gamma: discount per step.
            n_step: largest number of steps to sum, 1 or more.
            reward: makes one number of the reward terms.
            action_chunk: steps whose actions make a row's, 1 to ``n_step``.
            keys: of the observations that are wanted; None: all. Where ``out`` is given it is what that has.
            out: arrays to write into, each with leading axes ``indices.shape``; made anew if None.
            rng: draws which view of its images each observation's features are of; None: the first.

        Raises:
            IndexError: if a slot holds no transition.
            ConfigError: if ``reward`` needs an unknown term.
            ValueError: if a chunk is longer than the return.
        """
        if not 1 <= action_chunk <= n_step:
            raise ValueError(f"action_chunk must be in [1, n_step = {n_step}], got {action_chunk}")
        self._check_indices(indices)
        if out is None:
            out = self.empty_batch(indices.shape, action_chunk, keys)
        columns = self._columns
        sums = self._segments.sum_rewards(indices, self.terms, gamma=gamma, n_step=n_step, reward=reward)
        out["reward"][...] = sums.total
        np.multiply(sums.discount, ~columns.terminated.take(sums.last), out=out["discount"])
        columns.take_actions(self._segments.chunks(indices, action_chunk), out)
        columns.take_observations("observation", indices, out, rng)
        columns.take_observations("next_observation", columns.next.take(sums.last), out, rng)
        return out

    def returns_to_go(self, indices: Indices, *, gamma: float, reward: Reward) -> NDArray[np.float32]:
        """Return lower bounds of the discounted rewards from slots ``indices`` to the ends of their episodes.

        They are exact where the segment ends by termination. What would have followed another end is not known: it is
        taken to be the smallest reward of this ring for ever, or nothing if that is positive.

        Args:
            indices: slots, of any shape.
            gamma: discount per step.
            reward: makes one number of the reward terms.

        Raises:
            IndexError: if a slot holds no transition.
        """
        self._check_indices(indices)
        sums = self._segments.sum_rewards(indices, self.terms, gamma=gamma, n_step=self.capacity, reward=reward)
        values = self._columns.values.take(self._sampleable.members, 0)
        smallest = min(0.0, float(reward.combine(self.terms, values, gamma).min()))
        unknown = np.where(self._columns.terminated.take(sums.last), 0, sums.discount)
        return (sums.total + unknown * smallest / max(1 - gamma, LEAST_DISCOUNTING)).astype(np.float32)

    def compute_features(self) -> None:
        """Compute all features that are not known yet, in the order of the slots."""
        self._columns.compute_features(np.arange(self._filled))

    def empty_batch(self, shape: tuple[int, ...], action_chunk: int = 1, keys: Collection[str] | None = None) -> Batch:
        """Return uninitialised arrays for :meth:`gather`, with leading axes ``shape``."""
        return self._columns.empty_batch(shape, action_chunk, keys)

    def labels(self, indices: Indices) -> Batch:
        """Return what else is known of the transitions in slots ``indices``.

        ``source`` uint8 (:class:`Source`), ``policy_version`` int64 (-1: none), ``success`` int8 (1, 0, or -1:
        unknown), ``terminated`` and ``truncated`` bool; each shaped like ``indices``.

        Raises:
            IndexError: if a slot holds no transition.
        """
        self._check_indices(indices)
        arrays = self._columns.state()
        names = ("source", "policy_version", "success", "terminated", "truncated")
        return {name: arrays[name].take(indices) for name in names}

    def sample_rows(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw ``n`` transitions uniformly with replacement, as :class:`~robo_rl.core.RewardModule` wants them.

        Raises:
            ValueError: if the ring is empty.
        """
        return self._columns.rows(self.sample_indices(n, rng))

    def sample_segments(
        self, n: int, length: int, rng: np.random.Generator, *, newest: int | None = None
    ) -> Batch | None:
        """Draw ``n`` unbroken stretches of ``length`` transitions uniformly with replacement: arrays (n, length, ...).

        ``newest``: they begin in so many of the newest transitions; None: anywhere. Returns None where there is none.
        Rows are as :class:`~robo_rl.core.RewardModule` wants them.
        """
        first = np.sort(self._sampleable.members)
        if newest is not None:
            by_age = np.argsort((first - self._cursor) % self.capacity)  # what is written next is the oldest
            first = first[np.sort(by_age[-newest:])]
        chain = [first]
        for _ in range(length - 1):
            following = self._columns.next.take(chain[-1])
            goes_on = self._sampleable.contains(following)
            chain = [slots[goes_on] for slots in chain] + [following[goes_on]]
        if not chain[0].size:
            return None
        return self._columns.rows(np.stack(chain, axis=1)[rng.integers(0, chain[0].size, n)])

    def everything(self, reward: Reward, keys: Collection[str] | None = None) -> Batch:
        """Return all transitions, one step each and undiscounted, with ``keys`` of the observations; None: all."""
        return self.gather(np.sort(self._sampleable.members), gamma=1.0, n_step=1, reward=reward, keys=keys)

    def _check_indices(self, indices: Indices) -> None:
        if indices.size and (indices.min() < 0 or indices.max() >= self.capacity):
            raise IndexError(f"slots must be in [0, {self.capacity}), got {indices.min()} to {indices.max()}")
        if not self._sampleable.contains(indices).all():
            raise IndexError("some slots hold no transition: take them from sample_indices, after the last append")

    # --- state -------------------------------------------------------------------------------------------------------

    def _arrays(self) -> State:
        return self._columns.state() | {"order": self._sampleable.order}

    def state(self) -> State:
        """Return everything needed to go on exactly as from here.

        The arrays are views of the filled part of this memory, not copies: write them before the next ``append``.
        """
        facts = {
            "capacity": self.capacity,
            "cursor": self._cursor,
            "count": len(self),
            "reward_terms": list(self.terms),
            "held": list(self._computed.held),
            "tails": {actor: list(tail) for actor, tail in self._tails.items()},
            "features": self._columns.fingerprint,
        }
        state = {name: column[: self._filled] for name, column in self._arrays().items()}
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
        self._filled = len(state["order"])
        self._cursor = whole_number(facts["cursor"], 0, self.capacity)
        self._tails = {actor: _Tail(*map(whole_number, tail)) for actor, tail in facts["tails"].items()}
        self._computed.restart(dict.fromkeys(facts.get("held", ())))
        self._sampleable.restore(whole_number(facts["count"], 0, self._filled))
        self._interventions = None

"""Replay memory in RAM."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    TEACHERS,
    ArraySpec,
    Batch,
    CheckpointError,
    ConfigError,
    EnvSpec,
    FeatureExtractor,
    Metrics,
    Observation,
    Reward,
    Scorer,
    Source,
    SpecError,
    State,
    Transition,
)

from .encoding import encode_success
from .features import FeatureCache
from .slots import Indices, SlotSet


class _Tail(NamedTuple):
    """The newest transition of an actor whose episode is still open, and the slot of its next observation."""

    session: int
    episode: int
    sequence: int
    slot: int


class _Relabelled(NamedTuple):
    """How far :meth:`ReplayRing.relabel` has come: terms before ``slot`` are of ``version`` of the modules."""

    version: int
    slot: int


_NOTHING_RELABELLED = _Relabelled(-1, 0)


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
        self.terms = (*spec.reward_terms, *added_terms)
        self._added = added_terms
        self._proposed = ArraySpec(spec.action.shape)
        try:
            self._observation = {
                key: np.zeros((capacity, *array.shape), dtype=array.dtype) for key, array in spec.observation.items()
            }
            self._action = np.zeros((capacity, *spec.action.shape), dtype=np.float32)
            self._proposed_action = np.zeros_like(self._action)
            self._terms = np.zeros((capacity, len(self.terms)), dtype=np.float32)
            # Version of the learned modules that computed a slot's terms; -1: none yet.
            self._terms_version = np.full(capacity, -1, dtype=np.int64)
            self._terminated = np.zeros(capacity, dtype=np.bool_)
            self._truncated = np.zeros(capacity, dtype=np.bool_)
            self._source = np.zeros(capacity, dtype=np.uint8)
            self._success = np.zeros(capacity, dtype=np.int8)
            self._policy_version = np.zeros(capacity, dtype=np.int64)
            self._next = np.zeros(capacity, dtype=np.intp)
            self._sampleable = SlotSet(capacity)
            self._features = None if extractor is None else FeatureCache(capacity, extractor)
        except MemoryError as error:
            gigabytes = capacity * sum(array.nbytes for array in spec.observation.values()) / 1e9
            raise ConfigError(
                f"replay capacity {capacity} does not fit into memory: its observations alone take {gigabytes:.1f} GB"
            ) from error
        self._cursor = 0
        self._filled = 0
        self._tails: dict[str, _Tail] = {}
        self._held: dict[int, None] = {}  # slots in order of arrival
        self._interventions: Indices | None = None  # of :meth:`interventions`; None where they may be others now
        self._relabelled = _NOTHING_RELABELLED

    def __len__(self) -> int:
        """Return the number of transitions that can be sampled."""
        return len(self._sampleable)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the preallocated arrays; the system hands them out as slots are first used."""
        return sum(array.nbytes for array in (*self._columns().values(), self._sampleable.position))

    def metrics(self) -> Metrics:
        """Return the number of transitions, the share of actions by humans, and the bytes of memory."""
        human = self._source[self._sampleable.members] == Source.HUMAN
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
        rewards = list(map(self._check, transitions, shared))
        for transition, terms, is_shared in zip(transitions, rewards, shared, strict=True):
            self._append(transition, terms, is_shared)
        return len(transitions)

    def _check(self, transition: Transition, shared: bool) -> list[float]:
        """Check a transition against the spec; return its reward terms in the spec's order.

        Args:
            transition: to be stored.
            shared: whether its observation is the very object that ended the one before, and was checked there.
        """
        named = [("next observation", transition.next_observation)]
        if not shared:
            named.insert(0, ("observation", transition.observation))
        for name, observation in named:
            for key, array in self.spec.observation.items():
                if key not in observation:
                    raise SpecError(f"{name}: expected keys {sorted(self.spec.observation)}, got {sorted(observation)}")
                array.check(f"{name} {key!r}", observation[key])
        self.spec.action.check("executed action", transition.executed_action)
        self._proposed.check("proposed action", transition.proposed_action)
        try:
            terms = [float(transition.rewards[name]) for name in self.spec.reward_terms]
        except KeyError as error:
            expected, got = sorted(self.spec.reward_terms), sorted(transition.rewards)
            raise SpecError(f"rewards: expected terms {expected}, got {got}") from error
        if not np.isfinite(terms).all():
            raise SpecError(f"rewards: expected finite terms, got {dict(transition.rewards)}")
        return terms

    def _append(self, transition: Transition, terms: list[float], shared: bool) -> None:
        slot = self._continued_slot(transition, shared)
        if slot is None:
            slot = self._allocate()
            self._store_observation(slot, transition.observation)
        self._tails.pop(transition.actor, None)
        following = self._allocate()
        self._store_observation(following, transition.next_observation)
        self._action[slot] = transition.executed_action
        self._proposed_action[slot] = transition.proposed_action
        self._terms[slot, : len(terms)] = terms
        self._terminated[slot] = transition.terminated
        self._truncated[slot] = transition.truncated
        self._source[slot] = transition.source
        self._success[slot] = encode_success(transition.success)
        self._policy_version[slot] = transition.policy_version
        self._next[slot] = following
        if self._added:
            self._terms_version[slot] = -1
            self._held[slot] = None
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
        same = shared or all(
            np.array_equal(array[tail.slot], transition.observation[key]) for key, array in self._observation.items()
        )
        return tail.slot if same else None

    def _allocate(self) -> int:
        """Hand out the oldest slot and forget the transition and the open episode it belonged to."""
        slot = self._cursor
        self._cursor = (slot + 1) % self.capacity
        self._filled = max(self._filled, slot + 1)
        self._sampleable.discard(slot)
        if self._source[slot] in TEACHERS:
            self._interventions = None
        self._held.pop(slot, None)
        for actor in [actor for actor, tail in self._tails.items() if tail.slot == slot]:
            del self._tails[actor]
        return slot

    def _make_available(self, slot: int) -> None:
        self._sampleable.add(slot)
        if self._source[slot] in TEACHERS:
            self._interventions = None

    def _store_observation(self, slot: int, observation: Observation) -> None:
        if self._features is not None:
            self._features.forget(slot)
        for key, array in self._observation.items():
            array[slot] = observation[key]

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
        for segment in self._held_segments():
            if scorer.whole_episodes and self._next[segment[-1]] in {tail.slot for tail in self._tails.values()}:
                continue
            slots = np.array(segment, dtype=np.intp)
            if online and not scorer.ready(self._rows(slots[:1])):
                continue
            self._write_terms(slots, scorer.score(self._rows(slots), online=online))
            self._terms_version[slots] = scorer.version
            for slot in segment:
                self._make_available(slot)
                del self._held[slot]
            released.append(slots)
        return np.concatenate(released) if released else np.zeros(0, dtype=np.intp)

    def rescore(self, slots: Indices, scorer: Scorer, n_step: int = 1) -> None:
        """Compute the terms of learned modules again for the transitions in ``slots``, where they are out of date.

        Args:
            slots: of any shape.
            scorer: what computes.
            n_step: how many steps from there on are needed, as in :meth:`gather`.
        """
        for step in range(n_step):
            if step:
                slots = self._next.take(slots)
                slots = slots[self._sampleable.contains(slots)]
            stale = np.unique(slots[self._terms_version.take(slots) != scorer.version])
            if stale.size:
                self._write_terms(stale, scorer.rescore(self._rows(stale)))
                self._terms_version[stale] = scorer.version

    def relabel(self, scorer: Scorer, most: int) -> int:
        """Compute out-of-date terms of learned modules again, of ``most`` transitions at most; return of how many.

        Calls go through the ring in the order of its slots, and begin anew when a module has changed. What is already
        up to date is passed over, so a ring that was loaded goes on like the one that was saved; where all is, a call
        costs nothing.
        """
        version = scorer.version
        first = self._relabelled.slot if self._relabelled.version == version else 0
        stale = first + np.flatnonzero(self._terms_version[first : self._filled] != version)
        # What is not there yet, or held back, is scored by the newest modules when it is.
        stale = stale[self._sampleable.contains(stale)][:most]
        if stale.size:
            self._write_terms(stale, scorer.rescore(self._rows(stale)))
            self._terms_version[stale] = version
        self._relabelled = _Relabelled(version, int(stale[-1]) + 1 if stale.size == most else self.capacity)
        return stale.size

    def terms_state(self) -> State:
        """Return all reward terms; what has to be kept of a ring whose transitions come from a data set."""
        return {"terms": self._terms[: self._filled], "terms_version": self._terms_version[: self._filled]}

    def load_terms(self, state: State) -> None:
        """Take over a ``terms_state`` of a ring with the same transitions; what is held back becomes available.

        Raises:
            CheckpointError: if it is of another number of transitions or terms.
        """
        for name, ours in self.terms_state().items():
            if name not in state or state[name].shape != ours.shape or state[name].dtype != ours.dtype:
                found = state[name].shape if name in state else "nothing"
                raise CheckpointError(
                    f"reward terms of the demonstrations: expected {name!r} of shape {ours.shape}, found {found}; "
                    "resume with the data set of the run"
                )
            ours[...] = state[name]
        for slot in self._held:
            self._make_available(slot)
        self._held = {}
        self._relabelled = _NOTHING_RELABELLED

    def values(self, slots: Indices) -> NDArray[np.float32]:
        """Return the reward terms (n, T) of the transitions in ``slots`` (n,), in the order of ``terms``."""
        return self._terms.take(slots, 0)

    def _held_segments(self) -> list[list[int]]:
        """Return the slots that are held back, as unbroken stretches of steps."""
        segments: list[list[int]] = []
        by_first_observation: dict[int, list[int]] = {}
        for slot in self._held:
            segment = by_first_observation.pop(slot, None)
            if segment is None:
                segment = []
                segments.append(segment)
            segment.append(slot)
            by_first_observation[int(self._next[slot])] = segment
        return segments

    def _write_terms(self, slots: Indices, terms: Mapping[str, NDArray[np.float32]]) -> None:
        for name, values in terms.items():
            if values.shape != slots.shape or not np.isfinite(values).all():
                raise SpecError(f"reward term {name!r}: expected {slots.size} finite values, got {values}")
            self._terms[slots, self.terms.index(name)] = values

    # --- reading -----------------------------------------------------------------------------------------------------

    def sample_indices(self, n: int, rng: np.random.Generator) -> Indices:
        """Draw ``n`` transitions uniformly with replacement; return their slots (n,).

        Raises:
            ValueError: if the ring is empty.
        """
        if not len(self):
            raise ValueError("the replay ring is empty: append transitions before sampling")
        return self._sampleable.draw(n, rng)

    def interventions(self) -> Indices:
        """Return the slots (n,), in order, of the transitions whose action a human or a scripted expert chose."""
        if self._interventions is None:  # each learner step asks, and a look at all slots is long
            slots = np.flatnonzero(np.isin(self._source[: self._filled], TEACHERS))
            self._interventions = slots[self._sampleable.contains(slots)]
        return self._interventions

    def gather(
        self,
        indices: Indices,
        *,
        gamma: float,
        n_step: int,
        reward: Reward,
        out: Batch | None = None,
        rng: np.random.Generator | None = None,
    ) -> Batch:
        """Return the transitions in slots ``indices`` as a batch, with n-step returns.

        The rewards of up to ``n_step`` steps are summed, discounted; fewer where the segment ends earlier: by
        termination, truncation, a gap, or because nothing newer is known. With k steps summed, ``next_observation``
        is the one after k steps and ``discount`` is ``gamma**k``, or 0 if the last of them terminated.

        Args:
            indices: slots, (n,) or (minibatches, rows), as :meth:`sample_indices` gives them.
            gamma: discount per step.
            n_step: largest number of steps to sum, 1 or more.
            reward: makes one number of the reward terms.
            out: arrays to write into, each with leading axes ``indices.shape``; made anew if None.
            rng: draws which view of its images each observation's features are of; None: the first.

        Raises:
            IndexError: if a slot holds no transition.
            ConfigError: if ``reward`` needs an unknown term.
        """
        self._check_indices(indices)
        if out is None:
            out = self.empty_batch(indices.shape)
        last = indices
        total = reward.combine(self.terms, self._terms.take(last, 0), gamma)
        discount = np.full(indices.shape, gamma, dtype=np.float32)
        for step in range(1, n_step):
            following = self._next.take(last)
            goes_on = self._sampleable.contains(following)
            rewards = reward.combine(self.terms, self._terms.take(following, 0), gamma)
            total += np.where(goes_on, np.float32(gamma**step) * rewards, np.float32(0))
            discount[goes_on] = gamma ** (step + 1)
            last = np.where(goes_on, following, last)
        out["reward"][...] = total
        np.multiply(discount, ~self._terminated.take(last), out=out["discount"])
        following = self._next.take(last)
        _take(self._action, indices, out["action"])
        _take(self._proposed_action, indices, out["proposed_action"])
        for prefix, slots in (("observation", indices), ("next_observation", following)):
            for key, array in self._observation.items():
                if self._features is None or key not in self._features.keys:
                    _take(array, slots, out[f"{prefix}/{key}"])
            if self._features is not None:
                self._features.compute(slots, self._observation)
                rows = self._features.rows(slots, rng)
                for key in self._features.keys:
                    _take(self._features.flat(key), rows, out[f"{prefix}/{key}"])
        return out

    def compute_features(self) -> None:
        """Compute all features that are not known yet, in the order of the slots."""
        if self._features is not None:
            self._features.compute(np.arange(self._filled), self._observation)

    def empty_batch(self, shape: tuple[int, ...]) -> Batch:
        """Return uninitialised arrays for :meth:`gather`, with leading axes ``shape``."""
        batch: Batch = {}
        for prefix in ("observation", "next_observation"):
            for key, array in {**self.spec.observation, **self._feature_spec()}.items():
                batch[f"{prefix}/{key}"] = np.empty((*shape, *array.shape), dtype=array.dtype)
        for name in ("action", "proposed_action"):
            batch[name] = np.empty((*shape, *self.spec.action.shape), dtype=np.float32)
        batch["reward"] = np.empty(shape, dtype=np.float32)
        batch["discount"] = np.empty(shape, dtype=np.float32)
        return batch

    def _feature_spec(self) -> dict[str, ArraySpec]:
        return {} if self._features is None else dict(self._features.spec)

    def labels(self, indices: Indices) -> Batch:
        """Return what else is known of the transitions in slots ``indices``.

        ``source`` uint8 (:class:`Source`), ``policy_version`` int64 (-1: none), ``success`` int8 (1, 0, or -1:
        unknown), ``terminated`` and ``truncated`` bool; each shaped like ``indices``.

        Raises:
            IndexError: if a slot holds no transition.
        """
        self._check_indices(indices)
        columns: Batch = {
            "source": self._source,
            "policy_version": self._policy_version,
            "success": self._success,
            "terminated": self._terminated,
            "truncated": self._truncated,
        }
        return {name: column.take(indices) for name, column in columns.items()}

    def sample_rows(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw ``n`` transitions uniformly with replacement, as :class:`~robo_rl.core.RewardModule` wants them.

        Raises:
            ValueError: if the ring is empty.
        """
        return self._rows(self.sample_indices(n, rng))

    def sample_segments(self, n: int, length: int, rng: np.random.Generator) -> Batch | None:
        """Draw ``n`` unbroken stretches of ``length`` transitions uniformly with replacement: arrays (n, length, ...).

        Returns None where there is none. Rows are as :class:`~robo_rl.core.RewardModule` wants them.
        """
        chain = [np.sort(self._sampleable.members)]
        for _ in range(length - 1):
            following = self._next.take(chain[-1])
            goes_on = self._sampleable.contains(following)
            chain = [slots[goes_on] for slots in chain] + [following[goes_on]]
        if not chain[0].size:
            return None
        return self._rows(np.stack(chain, axis=1)[rng.integers(0, chain[0].size, n)])

    def _rows(self, slots: Indices) -> Batch:
        """Return transitions as rows for reward modules, with leading axes ``slots.shape``."""
        following = self._next.take(slots)
        rows: Batch = {"action": self._action.take(slots, 0)}
        for key, array in self._observation.items():
            rows[f"observation/{key}"] = array.take(slots, 0)
            rows[f"next_observation/{key}"] = array.take(following, 0)
        for name in ("terminated", "truncated", "source", "success"):
            rows[name] = self._columns()[name].take(slots)
        for column, name in enumerate(self.spec.reward_terms):
            rows[f"term/{name}"] = self._terms[:, column].take(slots)
        return rows

    def everything(self, reward: Reward) -> Batch:
        """Return all transitions, one step each and undiscounted."""
        return self.gather(np.sort(self._sampleable.members), gamma=1.0, n_step=1, reward=reward)

    def _check_indices(self, indices: Indices) -> None:
        if indices.size and (indices.min() < 0 or indices.max() >= self.capacity):
            raise IndexError(f"slots must be in [0, {self.capacity}), got {indices.min()} to {indices.max()}")
        if not self._sampleable.contains(indices).all():
            raise IndexError("some slots hold no transition: take them from sample_indices, after the last append")

    # --- state -------------------------------------------------------------------------------------------------------

    def _columns(self) -> dict[str, NDArray[Any]]:
        columns = {f"observation/{key}": array for key, array in self._observation.items()}
        if self._added:
            columns["terms_version"] = self._terms_version
        return columns | {
            "action": self._action,
            "proposed_action": self._proposed_action,
            "terms": self._terms,
            "terminated": self._terminated,
            "truncated": self._truncated,
            "source": self._source,
            "success": self._success,
            "policy_version": self._policy_version,
            "next": self._next,
            "order": self._sampleable.order,
            **({} if self._features is None else self._features.columns()),
        }

    def state(self) -> State:
        """Return everything needed to go on exactly as from here.

        The arrays are views of the filled part of this memory, not copies: write them before the next ``append``.
        """
        facts = {
            "capacity": self.capacity,
            "cursor": self._cursor,
            "count": len(self),
            "reward_terms": list(self.terms),
            "held": list(self._held),
            "tails": {actor: list(tail) for actor, tail in self._tails.items()},
            "features": None if self._features is None else self._features.fingerprint,
        }
        state = {name: column[: self._filled] for name, column in self._columns().items()}
        return state | {"facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)}

    def load(self, state: State) -> None:
        """Go on from ``state``. Features of another extractor are left out and computed again from the images.

        Raises:
            CheckpointError: if it is of a ring with another capacity, other observations, actions or reward terms.
        """
        facts = json.loads(state["facts"].tobytes()) if "facts" in state else {}
        columns = self._columns()
        if self._features is not None:
            self._features.clear()
        if self._features is None or facts.get("features") != self._features.fingerprint:
            columns, state = (
                {name: array for name, array in arrays.items() if not name.startswith("features")}
                for arrays in (columns, state)
            )
        if state.keys() != columns.keys() | {"facts"}:
            expected = sorted(columns.keys() | {"facts"})
            raise CheckpointError(f"replay: expected arrays {expected}, found {sorted(state)}")
        for name, ours in (("capacity", self.capacity), ("reward_terms", list(self.terms))):
            if facts[name] != ours:
                raise CheckpointError(
                    f"replay: expected {name} {ours}, found {facts[name]}; resume with the configuration of the run"
                )
        for name, column in columns.items():
            saved = state[name]
            if saved.shape[1:] != column.shape[1:] or saved.dtype != column.dtype or len(saved) > self.capacity:
                raise CheckpointError(
                    f"replay {name!r}: expected {column.dtype} rows of shape {column.shape[1:]}, at most "
                    f"{self.capacity}, found {saved.dtype} {saved.shape}"
                )
            column[: len(saved)] = saved
        self._filled = len(state["order"])
        self._cursor = facts["cursor"]
        self._tails = {actor: _Tail(*tail) for actor, tail in facts["tails"].items()}
        self._held = dict.fromkeys(facts.get("held", ()))
        self._sampleable.restore(facts["count"])
        self._interventions = None
        self._relabelled = _NOTHING_RELABELLED


def _take(source: NDArray[Any], indices: Indices, out: NDArray[Any]) -> None:
    """Copy ``source[indices]`` to ``out`` without a temporary array; the indices are in range.

    NumPy writes straight into ``out`` only if it is contiguous and the mode is not "raise"; a minibatch within a
    larger batch is contiguous, so a strided ``out`` (minibatches, rows, ...) is filled minibatch by minibatch.
    """
    if out.flags.c_contiguous:
        source.take(indices, 0, out, "clip")
        return
    for rows, target in zip(indices, out, strict=True):
        source.take(rows, 0, target, "clip")

"""Replay memory in RAM."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    ArraySpec,
    Batch,
    CheckpointError,
    ConfigError,
    EnvSpec,
    Metrics,
    Observation,
    RewardWeights,
    Source,
    SpecError,
    State,
    Transition,
)

from .encoding import encode_success
from .slots import Indices, SlotSet


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

    Not thread-safe.

    Args:
        capacity: slots, at least 2: observations held, so about one more per episode than transitions.
        spec: what is stored: its observation keys and reward terms. Transitions may carry more keys and terms
            (images for an agent that looks only at states); those are left out.

    Raises:
        ConfigError: if the capacity is too small, or too large for the memory of this machine.
    """

    def __init__(self, capacity: int, spec: EnvSpec) -> None:
        if capacity < 2:
            raise ConfigError(f"replay capacity must be 2 or more, got {capacity}")
        self.capacity = capacity
        self.spec = spec
        try:
            self._observation = {
                key: np.zeros((capacity, *array.shape), dtype=array.dtype) for key, array in spec.observation.items()
            }
            self._action = np.zeros((capacity, *spec.action.shape), dtype=np.float32)
            self._proposed_action = np.zeros_like(self._action)
            self._terms = np.zeros((capacity, len(spec.reward_terms)), dtype=np.float32)
            self._terminated = np.zeros(capacity, dtype=np.bool_)
            self._truncated = np.zeros(capacity, dtype=np.bool_)
            self._source = np.zeros(capacity, dtype=np.uint8)
            self._success = np.zeros(capacity, dtype=np.int8)
            self._policy_version = np.zeros(capacity, dtype=np.int64)
            self._next = np.zeros(capacity, dtype=np.intp)
            self._sampleable = SlotSet(capacity)
        except MemoryError as error:
            gigabytes = capacity * sum(_row_bytes(array) for array in spec.observation.values()) / 1e9
            raise ConfigError(
                f"replay capacity {capacity} does not fit into memory: its observations alone take {gigabytes:.1f} GB"
            ) from error
        self._cursor = 0
        self._filled = 0
        self._tails: dict[str, _Tail] = {}

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
        rewards = [self._check(transition) for transition in transitions]
        for transition, terms in zip(transitions, rewards, strict=True):
            self._append(transition, terms)
        return len(transitions)

    def _check(self, transition: Transition) -> list[float]:
        """Check a transition against the spec; return its reward terms in the spec's order."""
        for name, observation in (
            ("observation", transition.observation),
            ("next observation", transition.next_observation),
        ):
            for key, array in self.spec.observation.items():
                if key not in observation:
                    raise SpecError(f"{name}: expected keys {sorted(self.spec.observation)}, got {sorted(observation)}")
                array.check(f"{name} {key!r}", observation[key])
        self.spec.action.check("executed action", transition.executed_action)
        ArraySpec(self.spec.action.shape).check("proposed action", transition.proposed_action)
        try:
            terms = [float(transition.rewards[name]) for name in self.spec.reward_terms]
        except KeyError as error:
            expected, got = sorted(self.spec.reward_terms), sorted(transition.rewards)
            raise SpecError(f"rewards: expected terms {expected}, got {got}") from error
        if not np.isfinite(terms).all():
            raise SpecError(f"rewards: expected finite terms, got {dict(transition.rewards)}")
        return terms

    def _append(self, transition: Transition, terms: list[float]) -> None:
        slot = self._continued_slot(transition)
        if slot is None:
            slot = self._allocate()
            self._store_observation(slot, transition.observation)
        self._tails.pop(transition.actor, None)
        following = self._allocate()
        self._store_observation(following, transition.next_observation)
        self._action[slot] = transition.executed_action
        self._proposed_action[slot] = transition.proposed_action
        self._terms[slot] = terms
        self._terminated[slot] = transition.terminated
        self._truncated[slot] = transition.truncated
        self._source[slot] = transition.source
        self._success[slot] = encode_success(transition.success)
        self._policy_version[slot] = transition.policy_version
        self._next[slot] = following
        self._sampleable.add(slot)
        if not (transition.terminated or transition.truncated):
            self._tails[transition.actor] = _Tail(
                transition.session, transition.episode, transition.sequence, following
            )

    def _continued_slot(self, transition: Transition) -> int | None:
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
        same = all(
            np.array_equal(array[tail.slot], transition.observation[key]) for key, array in self._observation.items()
        )
        return tail.slot if same else None

    def _allocate(self) -> int:
        """Hand out the oldest slot and forget the transition and the open episode it belonged to."""
        slot = self._cursor
        self._cursor = (slot + 1) % self.capacity
        self._filled = max(self._filled, slot + 1)
        self._sampleable.discard(slot)
        for actor in [actor for actor, tail in self._tails.items() if tail.slot == slot]:
            del self._tails[actor]
        return slot

    def _store_observation(self, slot: int, observation: Observation) -> None:
        for key, array in self._observation.items():
            array[slot] = observation[key]

    # --- reading -----------------------------------------------------------------------------------------------------

    def sample_indices(self, n: int, rng: np.random.Generator) -> Indices:
        """Draw ``n`` transitions uniformly with replacement; return their slots (n,).

        Raises:
            ValueError: if the ring is empty.
        """
        if not len(self):
            raise ValueError("the replay ring is empty: append transitions before sampling")
        return self._sampleable.draw(n, rng)

    def gather(
        self, indices: Indices, *, gamma: float, n_step: int, reward: RewardWeights, out: Batch | None = None
    ) -> Batch:
        """Return the transitions in slots ``indices`` as a batch, with n-step returns.

        The rewards of up to ``n_step`` steps are summed, discounted; fewer where the segment ends earlier: by
        termination, truncation, a gap, or because nothing newer is known. With k steps summed, ``next_observation``
        is the one after k steps and ``discount`` is ``gamma**k``, or 0 if the last of them terminated.

        Args:
            indices: slots, (n,) or (minibatches, rows), as :meth:`sample_indices` gives them.
            gamma: discount per step.
            n_step: largest number of steps to sum, 1 or more.
            reward: weights of the reward terms.
            out: arrays to write into, each with leading axes ``indices.shape``; made anew if None.

        Raises:
            IndexError: if a slot holds no transition.
            ConfigError: if ``reward`` names an unknown term.
        """
        self._check_indices(indices)
        if out is None:
            out = self.empty_batch(indices.shape)
        weights = reward.vector(self.spec.reward_terms)
        last = indices
        total = self._terms.take(last, 0) @ weights + np.float32(reward.offset)
        discount = np.full(indices.shape, gamma, dtype=np.float32)
        for step in range(1, n_step):
            following = self._next.take(last)
            goes_on = self._sampleable.contains(following)
            rewards = self._terms.take(following, 0) @ weights + np.float32(reward.offset)
            total += np.where(goes_on, np.float32(gamma**step) * rewards, np.float32(0))
            discount[goes_on] = gamma ** (step + 1)
            last = np.where(goes_on, following, last)
        out["reward"][...] = total
        np.multiply(discount, ~self._terminated.take(last), out=out["discount"])
        following = self._next.take(last)
        _take(self._action, indices, out["action"])
        _take(self._proposed_action, indices, out["proposed_action"])
        for key, array in self._observation.items():
            _take(array, indices, out[f"observation/{key}"])
            _take(array, following, out[f"next_observation/{key}"])
        return out

    def empty_batch(self, shape: tuple[int, ...]) -> Batch:
        """Return uninitialised arrays for :meth:`gather`, with leading axes ``shape``."""
        batch: Batch = {}
        for prefix in ("observation", "next_observation"):
            for key, array in self.spec.observation.items():
                batch[f"{prefix}/{key}"] = np.empty((*shape, *array.shape), dtype=array.dtype)
        for name in ("action", "proposed_action"):
            batch[name] = np.empty((*shape, *self.spec.action.shape), dtype=np.float32)
        batch["reward"] = np.empty(shape, dtype=np.float32)
        batch["discount"] = np.empty(shape, dtype=np.float32)
        return batch

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

    def everything(self, reward: RewardWeights) -> Batch:
        """Return all transitions, one step each and undiscounted."""
        return self.gather(np.sort(self._sampleable.members), gamma=1.0, n_step=1, reward=reward)

    def _check_indices(self, indices: Indices) -> None:
        if indices.size and (indices.min() < 0 or indices.max() >= self.capacity):
            raise IndexError(f"slots must be in [0, {self.capacity}), got {indices.min()} to {indices.max()}")
        if not self._sampleable.contains(indices).all():
            raise IndexError("some slots hold no transition: take them from sample_indices, after the last append")

    # --- state -------------------------------------------------------------------------------------------------------

    def _columns(self) -> dict[str, NDArray[Any]]:
        observations = {f"observation/{key}": array for key, array in self._observation.items()}
        return observations | {
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
        }

    def state(self) -> State:
        """Return everything needed to go on exactly as from here.

        The arrays are views of the filled part of this memory, not copies: write them before the next ``append``.
        """
        facts = {
            "capacity": self.capacity,
            "cursor": self._cursor,
            "count": len(self),
            "reward_terms": list(self.spec.reward_terms),
            "tails": {actor: list(tail) for actor, tail in self._tails.items()},
        }
        state = {name: column[: self._filled] for name, column in self._columns().items()}
        return state | {"facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)}

    def load(self, state: State) -> None:
        """Go on from ``state``.

        Raises:
            CheckpointError: if it is of a ring with another capacity, other observations, actions or reward terms.
        """
        columns = self._columns()
        if state.keys() != columns.keys() | {"facts"}:
            expected = sorted(columns.keys() | {"facts"})
            raise CheckpointError(f"replay: expected arrays {expected}, found {sorted(state)}")
        facts = json.loads(state["facts"].tobytes())
        for name, ours in (("capacity", self.capacity), ("reward_terms", list(self.spec.reward_terms))):
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
        self._sampleable.restore(facts["count"])


def _row_bytes(array: ArraySpec) -> int:
    return int(np.prod(array.shape, dtype=np.int64)) * np.dtype(array.dtype).itemsize


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

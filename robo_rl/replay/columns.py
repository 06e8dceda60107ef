"""Arrays of the replay buffer: the contents of its slots."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    ArraySpec,
    Batch,
    CheckpointError,
    ConfigError,
    EnvSpec,
    FeatureExtractor,
    Observation,
    SpecError,
    State,
    Transition,
)

from .encoding import encode_success
from .features import FeatureCache
from .slots import Indices


class Columns:
    """Preallocated arrays, one for each field, with a row for each slot.

    A slot holds one observation and, once it has arrived, the transition that begins there. The observation after that
    transition is in the slot ``next``. The caller keeps track of which slots are in use.

    Args:
        capacity: number of slots.
        spec: observations, actions and reward terms to store.
        added_terms: names of the reward terms that reward modules compute.
        extractor: computes features of images; None: there are no features.

    Attributes:
        terms: names of the reward terms: those of the spec, then the added ones.
        observation: arrays (capacity, ...) by key.
        action: executed actions, (capacity, A).
        proposed_action: actions before noise and safety filters, (capacity, A).
        values: values of the reward terms, (capacity, T).
        terms_version: version of the learned modules that computed the terms, (capacity,); -1: not computed yet.
        terminated: whether the task ended the episode, (capacity,).
        truncated: whether the episode was cut off, (capacity,).
        source: numbers of :class:`~robo_rl.core.Source`, (capacity,).
        success: 1, 0, or -1 if unknown, (capacity,).
        policy_version: number of the policy that chose the action, -1 for none, (capacity,).
        next: slot of the next observation, (capacity,).
        features: features of the images; None without an extractor.

    Raises:
        ConfigError: if the capacity is too large for the memory of this machine.
    """

    def __init__(
        self, capacity: int, spec: EnvSpec, added_terms: tuple[str, ...], extractor: FeatureExtractor | None
    ) -> None:
        self._spec = spec
        self._proposed = ArraySpec(spec.action.shape)
        self._has_added = bool(added_terms)
        self.terms = (*spec.reward_terms, *added_terms)
        try:
            self.observation = {
                key: np.zeros((capacity, *array.shape), dtype=array.dtype) for key, array in spec.observation.items()
            }
            self.action = np.zeros((capacity, *spec.action.shape), dtype=np.float32)
            self.proposed_action = np.zeros_like(self.action)
            self.values = np.zeros((capacity, len(self.terms)), dtype=np.float32)
            self.terms_version = np.full(capacity, -1, dtype=np.int64)
            self.terminated = np.zeros(capacity, dtype=np.bool_)
            self.truncated = np.zeros(capacity, dtype=np.bool_)
            self.source = np.zeros(capacity, dtype=np.uint8)
            self.success = np.zeros(capacity, dtype=np.int8)
            self.policy_version = np.zeros(capacity, dtype=np.int64)
            self.next = np.zeros(capacity, dtype=np.intp)
            self.features = None if extractor is None else FeatureCache(capacity, extractor)
        except MemoryError as error:
            gigabytes = capacity * sum(array.nbytes for array in spec.observation.values()) / 1e9
            raise ConfigError(
                f"replay capacity {capacity} does not fit into memory: its observations alone take {gigabytes:.1f} GB"
            ) from error

    # --- writing -----------------------------------------------------------------------------------------------------

    def check(self, transition: Transition, shared: bool) -> list[float]:
        """Check a transition against the spec; return its reward terms in the spec's order.

        Args:
            transition: the transition to store.
            shared: whether its observation is the same object as the next observation of the transition before, which
                has been checked.

        Raises:
            SpecError: if an array does not match, or a reward term is missing or not finite.
        """
        named = [("next observation", transition.next_observation)]
        if not shared:
            named.insert(0, ("observation", transition.observation))
        for name, observation in named:
            for key, array in self._spec.observation.items():
                if key not in observation:
                    expected = sorted(self._spec.observation)
                    raise SpecError(f"{name}: expected keys {expected}, got {sorted(observation)}")
                array.check(f"{name} {key!r}", observation[key])
        self._spec.action.check("executed action", transition.executed_action)
        self._proposed.check("proposed action", transition.proposed_action)
        try:
            terms = [float(transition.rewards[name]) for name in self._spec.reward_terms]
        except KeyError as error:
            expected, got = sorted(self._spec.reward_terms), sorted(transition.rewards)
            raise SpecError(f"rewards: expected terms {expected}, got {got}") from error
        if not np.isfinite(terms).all():
            raise SpecError(f"rewards: expected finite terms, got {dict(transition.rewards)}")
        return terms

    def write(self, slot: int, transition: Transition, terms: list[float], following: int) -> None:
        """Write a transition to ``slot``.

        Args:
            slot: slot of its observation.
            transition: the transition.
            terms: its reward terms, as :meth:`check` returned them.
            following: slot of its next observation.
        """
        self.action[slot] = transition.executed_action
        self.proposed_action[slot] = transition.proposed_action
        self.values[slot, : len(terms)] = terms
        self.terms_version[slot] = -1
        self.terminated[slot] = transition.terminated
        self.truncated[slot] = transition.truncated
        self.source[slot] = transition.source
        self.success[slot] = encode_success(transition.success)
        self.policy_version[slot] = transition.policy_version
        self.next[slot] = following

    def write_observation(self, slot: int, observation: Observation) -> None:
        """Replace the observation in a slot."""
        if self.features is not None:
            self.features.forget(slot)
        for key, array in self.observation.items():
            array[slot] = observation[key]

    def write_terms(self, slots: Indices, terms: Mapping[str, NDArray[np.float32]], version: int) -> None:
        """Write computed reward terms of the transitions in ``slots`` (n,).

        Args:
            slots: slots (n,).
            terms: values (n,) by name of the term.
            version: version of the modules that computed them.

        Raises:
            SpecError: if a term does not have n finite values.
        """
        for name, values in terms.items():
            if values.shape != slots.shape or not np.isfinite(values).all():
                raise SpecError(f"reward term {name!r}: expected {slots.size} finite values, got {values}")
            self.values[slots, self.terms.index(name)] = values
        self.terms_version[slots] = version

    # --- reading -----------------------------------------------------------------------------------------------------

    def holds(self, slot: int, observation: Observation) -> bool:
        """Return whether the observation in a slot equals ``observation``."""
        return all(np.array_equal(array[slot], observation[key]) for key, array in self.observation.items())

    def rows(self, slots: Indices, keys: Collection[str] | None = None) -> Batch:
        """Return transitions as rows for reward modules, with leading axes ``slots.shape``.

        ``keys`` selects observations (None: all).
        """
        following = self.next.take(slots)
        rows: Batch = {"action": self.action.take(slots, 0)}
        for key, array in self.observation.items():
            if keys is not None and key not in keys:
                continue
            rows[f"observation/{key}"] = array.take(slots, 0)
            rows[f"next_observation/{key}"] = array.take(following, 0)
        rows["terminated"] = self.terminated.take(slots)
        rows["truncated"] = self.truncated.take(slots)
        rows["source"] = self.source.take(slots)
        rows["success"] = self.success.take(slots)
        for column, name in enumerate(self._spec.reward_terms):
            rows[f"term/{name}"] = self.values[:, column].take(slots)
        return rows

    def empty_batch(self, shape: tuple[int, ...], action_chunk: int = 1, keys: Collection[str] | None = None) -> Batch:
        """Return uninitialised arrays of a batch, with leading axes ``shape``.

        Args:
            shape: leading axes.
            action_chunk: number of steps whose actions are concatenated: arrays of actions are (..., action_chunk * A).
            keys: observation keys; None: all.
        """
        features = {} if self.features is None else self.features.spec
        batch: Batch = {}
        for prefix in ("observation", "next_observation"):
            for key, array in {**self._spec.observation, **features}.items():
                if keys is None or key in keys:
                    batch[f"{prefix}/{key}"] = np.empty((*shape, *array.shape), dtype=array.dtype)
        for name in ("action", "proposed_action"):
            batch[name] = np.empty((*shape, action_chunk * int(np.prod(self._spec.action.shape))), dtype=np.float32)
        batch["reward"] = np.empty(shape, dtype=np.float32)
        batch["discount"] = np.empty(shape, dtype=np.float32)
        return batch

    def take_actions(self, chunks: Indices, out: Batch) -> None:
        """Copy actions of slots ``chunks`` (..., h) into ``action`` and ``proposed_action`` (..., h A) of ``out``."""
        for name, source in (("action", self.action), ("proposed_action", self.proposed_action)):
            # Splitting an axis returns a view for any strides.
            _take(source, chunks, out[name].reshape(*chunks.shape, *source.shape[1:]))

    def take_observations(self, prefix: str, slots: Indices, out: Batch, rng: np.random.Generator | None) -> None:
        """Copy observations in ``slots`` into the arrays of ``out``, with features instead of images.

        Args:
            prefix: prefix of the names in ``out``.
            slots: slots, of any shape.
            out: arrays with leading axes ``slots.shape``; observation keys without an array are skipped.
            rng: draws the view of the images whose features each observation gets; None: the first view.
        """
        for key, array in self.observation.items():
            if f"{prefix}/{key}" in out and (self.features is None or key not in self.features.keys):
                _take(array, slots, out[f"{prefix}/{key}"])
        if self.features is not None:
            self.features.compute(slots, self.observation)
            rows = self.features.rows(slots, rng)
            for key in self.features.keys:
                _take(self.features.flat(key), rows, out[f"{prefix}/{key}"])

    def compute_features(self, slots: Indices) -> None:
        """Compute the features of ``slots`` that have not been computed yet."""
        if self.features is not None:
            self.features.compute(slots, self.observation)

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint of the feature extractor, which identifies its features; None without an extractor."""
        return None if self.features is None else self.features.fingerprint

    def state(self) -> State:
        """Return all arrays by name; views, not copies."""
        columns: State = {f"observation/{key}": array for key, array in self.observation.items()}
        if self._has_added:
            columns["terms_version"] = self.terms_version
        return columns | {
            "action": self.action,
            "proposed_action": self.proposed_action,
            "terms": self.values,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "source": self.source,
            "success": self.success,
            "policy_version": self.policy_version,
            "next": self.next,
            **({} if self.features is None else self.features.columns()),
        }


def load_columns(columns: State, saved: State) -> int:
    """Copy ``saved`` rows of a buffer into its ``columns``, from the first slot on; return their number.

    Raises:
        CheckpointError: if they have other observations, actions or reward terms, if there are too many, or if some
            arrays have fewer than others.
    """
    if saved.keys() != columns.keys():
        raise CheckpointError(f"replay: expected arrays {sorted(columns)}, found {sorted(saved)}")
    for name, column in columns.items():
        rows = saved[name]
        if rows.shape[1:] != column.shape[1:] or rows.dtype != column.dtype or len(rows) > len(column):
            raise CheckpointError(
                f"replay {name!r}: expected {column.dtype} rows of shape {column.shape[1:]}, at most "
                f"{len(column)}, found {rows.dtype} {rows.shape}"
            )
        column[: len(rows)] = rows
    lengths = {name: len(rows) for name, rows in saved.items()}
    if len(set(lengths.values())) > 1:
        raise CheckpointError(f"replay: expected arrays of equal length, found {lengths}")
    return next(iter(lengths.values()))


def _take(source: NDArray[Any], indices: Indices, out: NDArray[Any]) -> None:
    """Copy ``source[indices]`` to ``out`` without a temporary array; the indices must be in range.

    NumPy writes directly into ``out`` only if it is contiguous and the mode is not "raise". A minibatch within a larger
    batch is contiguous, so a strided ``out`` (minibatches, rows, ...) is filled minibatch by minibatch.
    """
    if out.flags.c_contiguous:
        source.take(indices, 0, out, "clip")
        return
    for rows, target in zip(indices, out, strict=True):
        source.take(rows, 0, target, "clip")

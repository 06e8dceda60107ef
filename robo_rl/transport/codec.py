"""Binary format of transitions, with fixed layouts that follow from the environment's spec."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    PASSED,
    ArraySpec,
    EnvSpec,
    Observation,
    Refusal,
    Source,
    SpecError,
    Transition,
    Verdict,
    plain_text,
)

from .framing import join_fields
from .images import CODINGS, check_coding, decode_image, encode_image, is_image
from .messages_pb2 import Record, SafetyVerdict
from .received import LAST_NUMBER, ReceivedRecord

SEGMENT_BYTES = 32 << 20
"""Largest total size of consecutive steps without a record that can be decoded on its own. It bounds the memory that
the learner needs for an episode that does not end.
"""

OVERHEAD_BYTES = 16 << 10
"""Size of a record or request besides the layouts: numbers and texts [bytes]."""

TEXT_LENGTH = 500
"""Longest text in a record [characters]."""
NAME_LENGTH = 64
"""Longest name of a reason [characters]."""
MOST_REASONS = 16

_UNKNOWN, _NO, _YES = -1, 0, 1
_SUCCESS = {None: _UNKNOWN, False: _NO, True: _YES}
_LARGEST = float(np.finfo(np.float32).max)  # largest reward that the replay buffer can hold
_FLAGS = ("terminated", "truncated")


class RecordLayout:
    """Packed little-endian structures of a record's byte strings ``observation`` and ``step``.

    Attributes:
        images: keys of the observations that are sent as separate byte strings, in sorted order.
        observation: one field per other observation key, in sorted order.
        step: the same for the observation after the step (``next/<key>``), then ``proposed_action``,
            ``executed_action`` (A,) float32, ``rewards`` (terms,) float64 in the spec's order, ``terminated``,
            ``truncated`` uint8, ``source`` uint8, ``success`` int8 (1, 0, or -1: unknown), ``policy_version`` and
            ``stamp_ns`` int64.
        following: name of the field of ``step`` by observation key.
        arrays: fields of ``step`` that are arrays of a transition.
        values: the other fields of ``step``.
        step_bytes: size of ``step`` and the uncompressed images together.
        observation_bytes: size of ``observation`` and the uncompressed images together.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self.spec = spec
        keys = sorted(spec.observation)
        self.images = tuple(key for key in keys if is_image(spec.observation[key]))
        arrays = [(key, spec.observation[key]) for key in keys if key not in self.images]
        self.observation = np.dtype([(key, _little(array.dtype), array.shape) for key, array in arrays])
        self.step = np.dtype(
            [(f"next/{key}", _little(array.dtype), array.shape) for key, array in arrays]
            + [
                ("proposed_action", "<f4", spec.action.shape),
                ("executed_action", "<f4", spec.action.shape),
                ("rewards", "<f8", (len(spec.reward_terms),)),
                ("terminated", "u1"),
                ("truncated", "u1"),
                ("source", "u1"),
                ("success", "i1"),
                ("policy_version", "<i8"),
                ("stamp_ns", "<i8"),
            ]
        )
        self.following = {key: f"next/{key}" for key, _ in arrays}
        self.arrays = (*self.following.values(), "proposed_action", "executed_action")
        self.values = ("rewards", *_FLAGS, "source", "success", "policy_version", "stamp_ns")
        image_bytes = sum(spec.observation[key].nbytes for key in self.images)
        self.step_bytes = self.step.itemsize + image_bytes
        self.observation_bytes = self.observation.itemsize + image_bytes


class RecordEncoder:
    """Encoder of the records of one session. An observation that two steps share is written once.

    Args:
        spec: spec of the environment.
        image_compression: ``None``, ``"zstd"`` or ``"jpeg"``.

    Raises:
        ConfigError: if the images of the spec cannot be compressed in this way.
    """

    def __init__(self, spec: EnvSpec, image_compression: str | None = None) -> None:
        self._spec = spec
        self._layout = RecordLayout(spec)
        for key in self._layout.images:
            check_coding(image_compression, key, spec.observation[key])
        self._coding = CODINGS[image_compression]
        self._proposed = ArraySpec(spec.action.shape)
        self._last: Transition | None = None
        self._segment_bytes = 0

    def encode(self, transition: Transition) -> bytes:
        """Return the transition as a record.

        Raises:
            SpecError: if the transition does not match the spec or has a value that is not finite; pass it to
                :meth:`refuse` in this case.
        """
        self._check(transition)
        is_first = not self._continues(transition)
        row = np.empty((), self._layout.step)
        for key, name in self._layout.following.items():
            row[name] = transition.next_observation[key]
        row["proposed_action"] = transition.proposed_action
        row["executed_action"] = transition.executed_action
        row["rewards"] = [transition.rewards[name] for name in self._spec.reward_terms]
        row["terminated"], row["truncated"] = transition.terminated, transition.truncated
        row["source"] = transition.source
        row["success"] = _SUCCESS[transition.success]
        row["policy_version"], row["stamp_ns"] = transition.policy_version, transition.stamp_ns
        self._segment_bytes = self._layout.step_bytes + (0 if is_first else self._segment_bytes)
        self._last = transition
        record: bytes = Record(
            sequence=transition.sequence,
            episode=transition.episode,
            observation=self._observation(transition.observation) if is_first else b"",
            step=row.tobytes(),
            verdict=None if transition.verdict == PASSED else _packed(transition.verdict),
            image_coding=self._coding,
        ).SerializeToString()
        if not self._layout.images:
            return record
        images = [(Record.IMAGES_FIELD_NUMBER, image) for image in self._images(transition.next_observation)]
        if is_first:
            first_images = self._images(transition.observation)
            images += [(Record.FIRST_IMAGES_FIELD_NUMBER, image) for image in first_images]
        return join_fields(record, images)

    def refuse(self, transition: Transition, reason: str) -> bytes:
        """Return a record with the reason why this step is missing; the next record begins a segment."""
        self._last = None
        record: bytes = Record(
            sequence=transition.sequence, episode=transition.episode, refusal=reason[:TEXT_LENGTH]
        ).SerializeToString()
        return record

    def _observation(self, observation: Observation) -> bytes:
        row = np.empty((), self._layout.observation)
        for key in self._layout.following:
            row[key] = observation[key]
        return row.tobytes()

    def _images(self, observation: Observation) -> list[bytes | memoryview]:
        return [encode_image(observation[key], self._coding) for key in self._layout.images]

    def _continues(self, transition: Transition) -> bool:
        last = self._last
        if last is None or not transition.follows(last) or self._segment_bytes >= SEGMENT_BYTES:
            return False
        return transition.observation is last.next_observation or all(
            np.array_equal(value, last.next_observation[key]) for key, value in transition.observation.items()
        )

    def _check(self, transition: Transition) -> None:
        spec = self._spec
        if self._last is None or transition.observation is not self._last.next_observation:
            spec.check_observation(transition.observation)
        spec.check_observation(transition.next_observation)
        spec.action.check("executed action", transition.executed_action)
        self._proposed.check("proposed action", transition.proposed_action)
        if transition.rewards.keys() != set(spec.reward_terms):
            raise SpecError(f"rewards: expected terms {sorted(spec.reward_terms)}, got {sorted(transition.rewards)}")
        if not np.isfinite(list(transition.rewards.values())).all():
            raise SpecError(f"rewards: expected finite terms, got {dict(transition.rewards)}")


class RecordDecoder:
    """Decoder of the records of one session, in order. It checks every value against the spec.

    A record that violates the spec is refused, and so are the records after it, up to the next one that begins a
    segment: observations are never paired across a missing step.

    Args:
        spec: spec of the environment.
        actor: name of the actor in the transitions.
        session: number of the session in the transitions.
    """

    def __init__(self, spec: EnvSpec, actor: str, session: int) -> None:
        self._layout = RecordLayout(spec)
        self._spec = spec
        self._actor = actor
        self._session = session
        self._tail: Observation | None = None
        self._next_record = (
            -1,
            -1,
        )  # episode and sequence number of the record that begins with the observation ``_tail``

    def decode(self, records: Sequence[ReceivedRecord]) -> list[Transition | Refusal]:
        """Return one item per record; the arrays of transitions may be views of the received data."""
        items: list[Transition | Refusal] = []
        steps = self._steps(records)
        faults = self._faults(steps)
        rows = enumerate(zip(self._arrays(steps), self._values(steps), strict=True))
        for received in records:
            record = received.message
            if record.refusal:
                self._tail = None
                items.append(
                    Refusal(record.sequence, 1, f"refused by the actor: {plain_text(record.refusal, TEXT_LENGTH)}")
                )
                continue
            if len(record.step) != self._layout.step.itemsize:
                items.append(self._refuse(record, self._wrong_length("step", record.step, self._layout.step)))
                continue
            row, (arrays, values) = next(rows)
            try:
                if row in faults:
                    raise SpecError(faults[row])
                if record.episode > LAST_NUMBER:
                    raise SpecError(f"numbers of episodes end at {LAST_NUMBER}")
                items.append(self._transition(received, arrays, values))
            except SpecError as error:
                items.append(self._refuse(record, str(error)))
        return items

    def _arrays(self, steps: NDArray[Any]) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield the arrays of each step, in the order of ``layout.arrays``."""
        columns = [steps[name] for name in self._layout.arrays]
        # Iterating over a one-dimensional column yields scalars, which are not arrays.
        return zip(*(column if column.ndim > 1 else map(np.asarray, column) for column in columns), strict=True)

    def _values(self, steps: NDArray[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the other fields of each step, in the order of ``layout.values``."""
        return zip(*(steps[name].tolist() for name in self._layout.values), strict=True)

    def _transition(
        self, received: ReceivedRecord, arrays: tuple[NDArray[Any], ...], values: tuple[Any, ...]
    ) -> Transition:
        """Return the transition of a record and the fields of its step.

        Raises:
            SpecError: if its observations do not match the spec, or the observation before the step is missing.
        """
        layout, record = self._layout, received.message
        episode = record.episode
        if record.observation or received.first_images:
            observation = self._first_observation(received)
        elif self._tail is None or (episode, record.sequence) != self._next_record:
            raise SpecError("it needs the observation of a step that was refused or never arrived")
        else:
            observation = self._tail
        *observed, proposed_action, executed_action = arrays
        following = dict(zip(layout.following, observed, strict=True))
        if layout.images:
            following |= self._images("next observation", received.images, record.image_coding)
        rewards, terminated, truncated, source, success, policy_version, stamp_ns = values
        transition = Transition(
            observation=observation,
            proposed_action=proposed_action,
            executed_action=executed_action,
            rewards=dict(zip(self._spec.reward_terms, rewards, strict=True)),
            next_observation=following,
            terminated=bool(terminated),
            truncated=bool(truncated),
            source=Source(source),
            actor=self._actor,
            session=self._session,
            episode=episode,
            sequence=record.sequence,
            policy_version=policy_version,
            stamp_ns=stamp_ns,
            success=None if success == _UNKNOWN else bool(success),
            verdict=_unpacked(record.verdict) if record.HasField("verdict") else PASSED,
        )
        is_end = transition.terminated or transition.truncated
        self._tail, self._next_record = (None if is_end else following), (episode, record.sequence + 1)
        return transition

    def _first_observation(self, received: ReceivedRecord) -> Observation:
        record, layout = received.message, self._layout.observation
        data = record.observation
        if len(data) != layout.itemsize:
            raise SpecError(self._wrong_length("observation", data, layout))
        rows = np.frombuffer(data, layout) if data else np.empty(1, layout)
        observation = {key: np.asarray(rows[key][0]) for key in self._layout.following}
        observation |= self._images("observation", received.first_images, record.image_coding)
        self._spec.check_observation(observation)
        return observation

    def _images(self, name: str, images: Sequence[memoryview], coding: int) -> Observation:
        keys = self._layout.images
        if len(images) != len(keys):
            raise SpecError(f"{name}: expected {len(keys)} images, got {len(images)}")
        decoded = {}
        for key, data in zip(keys, images, strict=True):
            try:
                decoded[key] = decode_image(data, self._spec.observation[key], coding)
            except SpecError as error:
                raise SpecError(f"{name} {key!r}: {error}") from error
        return decoded

    def _steps(self, records: Sequence[ReceivedRecord]) -> NDArray[Any]:
        size = self._layout.step.itemsize
        messages = (received.message for received in records)
        step_data = [record.step for record in messages if not record.refusal and len(record.step) == size]
        return np.frombuffer(b"".join(step_data), self._layout.step)

    def _faults(self, steps: NDArray[Any]) -> dict[int, str]:
        """Return a description of the first fault of each invalid step, by row of ``steps``."""
        faults: dict[int, str] = {}
        spec = self._spec
        named_arrays = [
            (name, f"next observation {key!r}", spec.observation[key]) for key, name in self._layout.following.items()
        ]
        named_arrays.append(("executed_action", "executed action", spec.action))
        named_arrays.append(("proposed_action", "proposed action", ArraySpec(spec.action.shape)))
        named_arrays.append(
            ("rewards", "rewards", ArraySpec((len(spec.reward_terms),), "float64", -_LARGEST, _LARGEST))
        )
        for field, name, array in named_arrays:
            for row in _outside(steps[field], array):
                faults.setdefault(int(row), self._explain(name, array, steps[field][row]))
        for name, low, high in (*((flag, 0, 1) for flag in _FLAGS), ("source", 0, max(Source)), ("success", -1, 1)):
            for row in np.flatnonzero((steps[name] < low) | (steps[name] > high)):
                faults.setdefault(int(row), f"{name}: expected {low} to {int(high)}, got {steps[name][row]}")
        return faults

    @staticmethod
    def _explain(name: str, array: ArraySpec, value: NDArray[Any]) -> str:
        try:
            array.check(name, np.asarray(value))
        except SpecError as error:
            return str(error)
        raise AssertionError(f"{name}: the two checks differ")  # pragma: no cover

    def _refuse(self, record: Record, reason: str) -> Refusal:
        self._tail = None
        return Refusal(record.sequence, 1, reason)

    @staticmethod
    def _wrong_length(name: str, data: bytes, expected: np.dtype[Any]) -> str:
        return f"{name}: expected {expected.itemsize} bytes, got {len(data)}"


def _packed(verdict: Verdict) -> SafetyVerdict:
    reasons = [reason[:NAME_LENGTH] for reason in verdict.reasons[:MOST_REASONS]]
    return SafetyVerdict(
        changed=verdict.changed, stop=verdict.stop, reasons=reasons, message=verdict.message[:TEXT_LENGTH]
    )


def _unpacked(message: SafetyVerdict) -> Verdict:
    reasons = tuple(plain_text(reason, NAME_LENGTH) for reason in message.reasons[:MOST_REASONS])
    return Verdict(message.changed, message.stop, reasons, plain_text(message.message, TEXT_LENGTH))


def _little(dtype: str) -> np.dtype[Any]:
    return np.dtype(dtype).newbyteorder("<")


def _outside(rows: NDArray[Any], array: ArraySpec) -> NDArray[np.intp]:
    """Return the rows with a value that is not finite or out of range, as :meth:`ArraySpec.check` defines it."""
    if rows.dtype == np.uint8 or not len(rows):
        return np.zeros(0, np.intp)
    flat = rows.reshape(len(rows), -1)
    # Comparisons with NaN are false, so NaN is never valid.
    is_valid = (flat >= array.low) & (flat <= array.high) & np.isfinite(flat)
    return np.flatnonzero(~is_valid.all(1))

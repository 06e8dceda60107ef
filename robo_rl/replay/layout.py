"""Layout of a data set: its arrays (names, shapes, chunks), the record of an episode, and an episode in memory."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from dataclasses import field as default_field
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from robo_rl.core import (
    PASSED,
    Batch,
    DataError,
    EnvSpec,
    Observation,
    Source,
    Transition,
    Verdict,
    parse_json,
    whole_number,
)

from .chunks import CHUNK_ROWS, COMPRESSORS, IMAGE_CHUNK_ROWS, IMAGE_COMPRESSORS, SHARD_ROWS
from .disk import DurableStore, refuse_link
from .encoding import decode_success

_IMAGE_ROW_BYTES = 1024
_SPARE_ROWS = 1 << 20
"""Largest number of rows that an array may have beyond those in its files, because a killed writer leaves some."""


@dataclass(frozen=True)
class Field:
    """One array of a data set: rows of ``shape`` and ``dtype``, one per observation or one per step."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def is_large(self) -> bool:
        """Whether rows are stored in shards, like images."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize >= _IMAGE_ROW_BYTES


def observation_fields(spec: EnvSpec) -> list[Field]:
    """Return the arrays that hold L + 1 rows of an episode of L steps."""
    return [Field(f"observation/{key}", array.shape, array.dtype) for key, array in spec.observation.items()]


def step_fields(spec: EnvSpec) -> list[Field]:
    """Return the arrays that hold L rows of an episode of L steps."""
    return [
        Field("proposed_action", spec.action.shape, "float32"),
        Field("executed_action", spec.action.shape, "float32"),
        Field("rewards", (len(spec.reward_terms),), "float32"),
        Field("terminated", (), "bool"),
        Field("truncated", (), "bool"),
        Field("source", (), "uint8"),
        Field("success", (), "int8"),
        Field("policy_version", (), "int64"),
        Field("stamp_ns", (), "int64"),
    ]


def create_arrays(folder: Path, spec: EnvSpec) -> None:
    """Make the empty Zarr group of a data set."""
    group = zarr.open_group(DurableStore(folder), mode="w")
    for field in observation_fields(spec) + step_fields(spec):
        row = tuple(max(size, 1) for size in field.shape)
        group.create_array(
            field.name,
            shape=(0, *field.shape),
            dtype=field.dtype,
            chunks=(IMAGE_CHUNK_ROWS if field.is_large else CHUNK_ROWS, *row),
            shards=(SHARD_ROWS, *row) if field.is_large else None,
            compressors=IMAGE_COMPRESSORS if field.is_large else COMPRESSORS,
            chunk_key_encoding={"name": "default", "separator": "."},
        )


def open_arrays(folder: Path, spec: EnvSpec, writable: bool) -> "dict[str, zarr.Array[Any]]":
    """Open the arrays by name.

    Raises:
        DataError: if an array is missing or unreadable, or does not match the spec; with ``writable``, also if its
            folder is a link, or if it is much longer than its files.
    """
    store = DurableStore(folder, read_only=not writable)
    arrays = {}
    for field in observation_fields(spec) + step_fields(spec):
        for folded in (*reversed(Path(field.name).parents), Path(field.name)) if writable else ():
            refuse_link(folder / folded)
        try:
            array = zarr.open_array(store, path=field.name, mode="r+" if writable else "r", zarr_format=3)
        except Exception as error:  # Zarr raises any kind of error on a damaged file
            raise DataError(f"{folder / field.name}: the array is missing or damaged ({error})") from error
        if array.shape[1:] != field.shape or array.dtype != np.dtype(field.dtype):
            raise DataError(
                f"{folder / field.name}: expected {field.dtype} rows of shape {field.shape} as dataset.json states, "
                f"found {array.dtype} {array.shape[1:]}; the data set is damaged"
            )
        if writable:
            _check_length(array, folder / field.name)
        # Chunks of zeros are written too, so that a missing chunk always means damage.
        arrays[field.name] = array.with_config({"write_empty_chunks": True})
    return arrays


def _check_length(array: "zarr.Array[Any]", folder: Path) -> None:
    """Check the length of an array that will be truncated, because Zarr then looks for the file of every row beyond it.

    Raises:
        DataError: if there are not nearly enough files for its rows.
    """
    rows = max((array.shards or array.chunks)[0], 1)
    with os.scandir(folder) as entries:
        files = sum(1 for _ in entries)
    if array.shape[0] > files * rows + _SPARE_ROWS:
        raise DataError(
            f"{folder}: {array.shape[0]:,} rows are stated, but its {files} files hold at most {files * rows:,}; "
            "restore the data set from a copy"
        )


@dataclass(frozen=True)
class EpisodeRecord:
    """Entry of one episode in the list of episodes; writing its line commits the episode.

    Attributes:
        steps: number of actions; there is one more observation.
        actor: see :class:`Transition`.
        session: see :class:`Transition`.
        episode: see :class:`Transition`.
        sequence: number of the first step within the session.
        success: success of the last step; None if it is unknown.
        sources: number of actions by source, ``policy``, ``human``, ``script``, ``random``.
        crc32: checksum of the episode's rows (C order, little-endian) by array.
        verdicts: verdicts of the safety filters, as JSON values by number of the step within the episode; steps that
            passed unchanged are left out.
    """

    steps: int
    actor: str
    session: int
    episode: int
    sequence: int
    success: bool | None
    sources: dict[str, int]
    crc32: dict[str, int]
    verdicts: dict[str, dict[str, Any]] = default_field(default_factory=dict)

    def to_line(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_line(cls, line: bytes) -> "EpisodeRecord":
        """Inverse of :meth:`to_line`.

        Raises:
            ValueError: if the line is not a record.
        """
        try:
            return cls._from_json(parse_json(line, "the record"))
        except (DataError, AttributeError, TypeError) as error:
            raise ValueError(str(error)) from error

    @classmethod
    def _from_json(cls, value: Any) -> "EpisodeRecord":
        if isinstance(value, dict):
            value.setdefault("verdicts", {})  # absent in data sets from before verdicts were stored
        if not isinstance(value, dict) or value.keys() != cls.__dataclass_fields__.keys():
            raise ValueError(f"expected an object with the keys {', '.join(cls.__dataclass_fields__)}")
        record = cls(**value)
        whole_number(record.steps, 1)
        for number in (record.session, record.episode, record.sequence):
            whole_number(number)
        if not isinstance(record.actor, str) or not isinstance(record.success, bool | None):
            raise ValueError("actor or success has a wrong type")
        if not all(isinstance(mapping, dict) for mapping in (record.sources, record.crc32, record.verdicts)):
            raise ValueError("sources, crc32 or verdicts have a wrong type")
        for counts in (record.sources, record.crc32):
            for count in counts.values():
                whole_number(count)
        if sum(record.sources.values()) != record.steps:
            raise ValueError(f"sources count {sum(record.sources.values())} actions of {record.steps} steps")
        for step in record.verdicts:
            whole_number(int(step), 0, record.steps - 1)
            record.verdict(int(step))
        return record

    def verdict(self, step: int) -> Verdict:
        """Return the verdict of the safety filters on a step.

        Raises:
            ValueError: if the stored verdict is invalid.
        """
        stored = self.verdicts.get(str(step))
        if stored is None:
            return PASSED
        try:
            return Verdict(
                changed=bool(stored["changed"]),
                stop=bool(stored["stop"]),
                reasons=tuple(map(str, stored["reasons"])),
                message=str(stored["message"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"the verdict on step {step} is damaged: {stored!r}") from error


@dataclass(frozen=True)
class EpisodeArrays:
    """Episode of L steps in memory.

    Attributes:
        record: identity, success and sources.
        observation: (L + 1, ...) by key; the last row is the true final observation.
        proposed_action: (L, A) float32.
        executed_action: (L, A) float32.
        rewards: (L,) float32 by term.
        terminated: (L,) bool.
        truncated: (L,) bool.
        source: (L,) uint8, see :class:`Source`.
        success: (L,) int8: 1, 0, or -1 if unknown.
        policy_version: (L,) int64, -1 if no policy chose the action.
        stamp_ns: (L,) int64, monotonic time of the observation before each step [ns].
    """

    record: EpisodeRecord
    observation: Mapping[str, NDArray[Any]]
    proposed_action: NDArray[np.float32]
    executed_action: NDArray[np.float32]
    rewards: Mapping[str, NDArray[np.float32]]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    source: NDArray[np.uint8]
    success: NDArray[np.int8]
    policy_version: NDArray[np.int64]
    stamp_ns: NDArray[np.int64]

    def rows(self) -> Batch:
        """Return the L steps as rows for a :class:`~robo_rl.core.RewardModule`; the arrays are views."""
        rows: Batch = {"action": self.executed_action}
        for key, array in self.observation.items():
            rows |= {f"observation/{key}": array[:-1], f"next_observation/{key}": array[1:]}
        rows |= {f"term/{name}": values for name, values in self.rewards.items()}
        return rows | {
            "terminated": self.terminated,
            "truncated": self.truncated,
            "source": self.source,
            "success": self.success,
        }

    def transitions(self) -> list[Transition]:
        """Return the L steps as transitions; their arrays are views."""
        observations = [
            dict(zip(self.observation, rows, strict=True)) for rows in zip(*self.observation.values(), strict=True)
        ]
        return [self._transition(step, *pair) for step, pair in enumerate(pairwise(observations))]

    def _transition(self, step: int, observation: Observation, following: Observation) -> Transition:
        return Transition(
            observation=observation,
            proposed_action=self.proposed_action[step],
            executed_action=self.executed_action[step],
            rewards={name: float(values[step]) for name, values in self.rewards.items()},
            next_observation=following,
            terminated=bool(self.terminated[step]),
            truncated=bool(self.truncated[step]),
            source=Source(int(self.source[step])),
            actor=self.record.actor,
            session=self.record.session,
            episode=self.record.episode,
            sequence=self.record.sequence + step,
            policy_version=int(self.policy_version[step]),
            stamp_ns=int(self.stamp_ns[step]),
            success=decode_success(int(self.success[step])),
            verdict=self.record.verdict(step),
        )

"""Writer of one episode into a data set."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from robo_rl.core import PASSED, ArraySpec, DataError, EnvSpec, Observation, Source, SpecError, Transition

from .chunks import SHARD_ROWS
from .encoding import encode_success
from .files import EpisodeFiles
from .layout import EpisodeRecord, Field, observation_fields, step_fields

Block = dict[str, NDArray[Any]]

BLOCK_ROWS = 2 * SHARD_ROWS
"""Largest number of rows collected before they are written: enough to reach the second shard boundary from any row."""


class _Rows:
    """Rows collected in blocks before they are written.

    Args:
        fields: the arrays.
        start: row of the arrays that the first collected row is written to.
    """

    def __init__(self, fields: Sequence[Field], start: int) -> None:
        self._fields = fields
        self.start = start
        self._block: Block = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, row: Mapping[str, Any]) -> None:
        """Append a copy of a row."""
        if not self._block:
            self._block = {
                field.name: np.empty((BLOCK_ROWS, *field.shape), dtype=field.dtype) for field in self._fields
            }
        for field in self._fields:
            self._block[field.name][self._count] = row[field.name]
        self._count += 1

    def take(self) -> tuple[int, Block]:
        """Return the first row of the collected block in the arrays, and the block; begin a new block."""
        start, block = self.start, {name: rows[: self._count] for name, rows in self._block.items()}
        self.start += self._count
        self._block, self._count = {}, 0
        return start, block


def check_step(spec: EnvSpec, transition: Transition, last: Transition | None) -> None:
    """Check that a step matches the data set's spec, and follows ``last`` unless that is None.

    Raises:
        SpecError: if the step does not match the spec.
        DataError: if it does not follow ``last``.
    """
    spec.check_observation(transition.observation)
    spec.check_observation(transition.next_observation)
    spec.action.check("executed action", transition.executed_action)
    ArraySpec(spec.action.shape).check("proposed action", transition.proposed_action)
    if last is not None:
        check_follows(transition, last)


def check_follows(transition: Transition, last: Transition) -> None:
    """Check that a step follows the step ``last`` and begins with its next observation.

    Raises:
        DataError: if it does not.
    """
    if not transition.follows(last):
        raise DataError(
            f"step {transition.sequence} of episode {transition.episode} does not follow step {last.sequence} of "
            f"episode {last.episode}; commit or discard, and begin another episode"
        )
    if transition.observation is last.next_observation:
        return
    for key, value in transition.observation.items():
        if not np.array_equal(value, last.next_observation[key]):
            raise DataError(
                f"step {transition.sequence}: its observation {key!r} is not the one that ended step "
                f"{last.sequence}; commit or discard, and begin another episode"
            )


def reward_row(spec: EnvSpec, transition: Transition) -> list[float]:
    """Return the reward terms in the spec's order.

    Raises:
        SpecError: if the terms are not those of the spec, or not finite.
    """
    terms = spec.reward_terms
    if transition.rewards.keys() != set(terms):
        raise SpecError(f"rewards: expected terms {sorted(terms)}, got {sorted(transition.rewards)}")
    rewards = [transition.rewards[name] for name in terms]
    if not all(map(math.isfinite, rewards)):
        raise SpecError(f"rewards: expected finite terms, got {dict(transition.rewards)}")
    return rewards


def step_row(spec: EnvSpec, transition: Transition) -> dict[str, Any]:
    """Return the values that are stored for a step, by array.

    Raises:
        SpecError: if the reward terms are not those of the spec, or not finite.
    """
    return {
        "proposed_action": transition.proposed_action,
        "executed_action": transition.executed_action,
        "rewards": reward_row(spec, transition),
        "terminated": transition.terminated,
        "truncated": transition.truncated,
        "source": transition.source,
        "success": encode_success(transition.success),
        "policy_version": transition.policy_version,
        "stamp_ns": transition.stamp_ns,
    }


def observation_row(observation: Observation) -> dict[str, Any]:
    """Return the values that are stored for an observation, by array."""
    return {f"observation/{key}": value for key, value in observation.items()}


def make_record(
    first: Transition,
    last: Transition,
    sources: Mapping[str, int],
    crc32: Mapping[str, int],
    verdicts: Mapping[str, Mapping[str, Any]],
) -> EpisodeRecord:
    """Return the record of an episode with these first and last steps."""
    return EpisodeRecord(
        steps=last.sequence - first.sequence + 1,
        actor=first.actor,
        session=first.session,
        episode=first.episode,
        sequence=first.sequence,
        success=last.success,
        sources=dict(sorted(sources.items())),
        crc32=dict(crc32),
        verdicts={step: dict(verdict) for step, verdict in verdicts.items()},
    )


class EpisodeWriter:
    """Writer of one episode, which exists only after :meth:`commit`. Use :meth:`EpisodeStore.writer` to make one.

    As a context manager it commits the episode at the end of the block, and discards it after an exception or if it has
    no steps. A thread compresses and writes the rows in blocks, so that ``append`` does not delay a control loop. At
    most two blocks of 400 rows are in memory.
    """

    def __init__(self, files: EpisodeFiles) -> None:
        self._files = files
        self._observations = _Rows(observation_fields(files.spec), files.observation_rows)
        self._steps = _Rows(step_fields(files.spec), files.step_rows)
        self._first: Transition | None = None
        self._last: Transition | None = None
        self._count = 0
        self._sources: Counter[str] = Counter()
        self._verdicts: dict[str, dict[str, Any]] = {}
        self._crc32: dict[str, int] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="episode-writer")
        self._writing: Future[None] | None = None
        self._open = True

    def __len__(self) -> int:
        """Return the number of steps so far."""
        return self._count

    @property
    def is_open(self) -> bool:
        """Whether the episode is neither committed nor discarded."""
        return self._open

    def append(self, transition: Transition) -> None:
        """Add the next step.

        Raises:
            SpecError: if it does not match the data set's spec; the episode stays open.
            DataError: if it does not follow the step before (the episode stays open), or an earlier block could not be
                written (the episode is discarded).
        """
        self._check_open()
        check_step(self._files.spec, transition, self._last)
        row = step_row(self._files.spec, transition)
        if self._first is None:
            self._first = transition
        self._last = transition
        if transition.verdict != PASSED:
            self._verdicts[str(self._count)] = asdict(transition.verdict)
        self._count += 1
        self._sources[Source(transition.source).name.lower()] += 1
        self._steps.append(row)
        self._observations.append(observation_row(transition.observation))
        # Blocks end at shard boundaries, so that a long episode writes each shard of images once.
        is_at_boundary = (self._observations.start + len(self._observations)) % SHARD_ROWS == 0
        if is_at_boundary and len(self._observations) > BLOCK_ROWS - SHARD_ROWS:
            self._write_blocks()

    def commit(self) -> int:
        """Close the episode and commit it; return its number.

        Raises:
            DataError: if the episode has no steps or cannot be written; it is discarded then.
        """
        self._check_open()
        if self._first is None or self._last is None:
            self.discard()
            raise DataError("an episode without a step cannot be stored")
        self._observations.append(observation_row(self._last.next_observation))
        self._write_blocks()
        self._wait()
        record = make_record(self._first, self._last, self._sources, self._crc32, self._verdicts)
        try:
            number = self._files.commit(record)
        except BaseException:
            self.discard()
            raise
        self._close()
        return number

    def discard(self) -> None:
        """Discard the episode; do nothing if it is already committed or discarded."""
        if not self._open:
            return
        self._close()
        self._files.try_cut_back()

    def _close(self) -> None:
        self._open = False
        self._thread.shutdown(wait=True)

    def _check_open(self) -> None:
        if not self._open:
            raise RuntimeError("this episode was committed or discarded; begin the next one with store.writer()")

    def _write_blocks(self) -> None:
        """Pass the collected rows to the thread, after it has written the previous block."""
        self._wait()
        self._writing = self._thread.submit(self._write, [self._observations.take(), self._steps.take()])

    def _wait(self) -> None:
        if self._writing is None:
            return
        try:
            self._writing.result()
        except BaseException:
            self.discard()
            raise
        finally:
            self._writing = None

    def _write(self, blocks: Sequence[tuple[int, Block]]) -> None:
        for start, block in blocks:
            for name, rows in block.items():
                self._files.write(name, start, rows)
                self._crc32[name] = isal_zlib.crc32(rows.data, self._crc32.get(name, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None and self._open and self._count:
            self.commit()
        else:
            self.discard()

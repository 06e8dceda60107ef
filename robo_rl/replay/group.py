"""Several episodes stored in one commit."""

import zlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import PASSED, ArraySpec, DataError, EnvSpec, Observation, Source, SpecError, Transition

from .encoding import encode_success
from .files import EpisodeFiles
from .writer import check_follows, make_record

WRITERS = 4
"""Arrays written at a time: while one waits for the disk, others are compressed."""


def write_episodes(files: EpisodeFiles, episodes: Sequence[Sequence[Transition]]) -> int:
    """Write the rows of ``episodes``, then commit them together; see :meth:`EpisodeStore.append_episodes`."""
    spec = files.spec
    steps = [step for episode in episodes for step in episode]
    observations: list[Observation] = []
    for episode in episodes:
        check_order(episode)
        observations += [step.observation for step in episode]
        observations.append(episode[-1].next_observation)
    columns = _step_columns(spec, steps), _observation_columns(spec, observations)
    starts = files.step_rows, files.observation_rows
    with ThreadPoolExecutor(WRITERS, "episode-writer") as pool:
        writing = [
            pool.submit(files.write, name, start, rows)
            for start, block in zip(starts, columns, strict=True)
            for name, rows in block.items()
        ]
    for write in writing:
        write.result()
    records = []
    step = observation = 0
    for episode in episodes:
        crc32 = {name: zlib.crc32(rows[step : step + len(episode)].data) for name, rows in columns[0].items()}
        stop = observation + len(episode) + 1
        crc32 |= {name: zlib.crc32(rows[observation:stop].data) for name, rows in columns[1].items()}
        step, observation = step + len(episode), stop
        sources = Counter(Source(transition.source).name.lower() for transition in episode)
        verdicts = {
            str(number): asdict(transition.verdict)
            for number, transition in enumerate(episode)
            if transition.verdict is not PASSED and transition.verdict != PASSED
        }
        records.append(make_record(episode[0], episode[-1], sources, crc32, verdicts))
    return files.commit(*records)


def check_order(episode: Sequence[Transition]) -> None:
    """Check that the steps of an episode follow each other.

    Raises:
        DataError: if one does not, or there is none.
    """
    if not episode:
        raise DataError("an episode without a step cannot be stored")
    for last, transition in pairwise(episode):
        check_follows(transition, last)


def _observation_columns(spec: EnvSpec, observations: Sequence[Observation]) -> dict[str, NDArray[Any]]:
    for observation in observations:
        if observation.keys() != spec.observation.keys():
            raise SpecError(f"observation: expected keys {sorted(spec.observation)}, got {sorted(observation)}")
    columns = {}
    for key, array in spec.observation.items():
        column = _stack(f"observation {key!r}", [observation[key] for observation in observations])
        array.check_rows(f"observation {key!r}", column)
        columns[f"observation/{key}"] = column
    return columns


def _step_columns(spec: EnvSpec, steps: Sequence[Transition]) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {}
    for name, array in (("proposed_action", ArraySpec(spec.action.shape)), ("executed_action", spec.action)):
        columns[name] = _stack(name, [getattr(step, name) for step in steps])
        array.check_rows(name, columns[name])
    columns["rewards"] = _reward_column(spec, steps)
    columns["terminated"] = np.array([step.terminated for step in steps], np.bool_)
    columns["truncated"] = np.array([step.truncated for step in steps], np.bool_)
    columns["source"] = np.array([step.source for step in steps], np.uint8)
    columns["success"] = np.array([encode_success(step.success) for step in steps], np.int8)
    columns["policy_version"] = np.array([step.policy_version for step in steps], np.int64)
    columns["stamp_ns"] = np.array([step.stamp_ns for step in steps], np.int64)
    return columns


def _reward_column(spec: EnvSpec, steps: Sequence[Transition]) -> NDArray[np.float32]:
    terms = spec.reward_terms
    expected = set(terms)
    for step in steps:
        if step.rewards.keys() != expected:
            raise SpecError(f"rewards: expected terms {sorted(terms)}, got {sorted(step.rewards)}")
    rewards = np.array([[step.rewards[name] for name in terms] for step in steps], np.float32)
    ArraySpec((len(terms),)).check_rows("rewards", rewards.reshape(len(steps), -1))
    return rewards.reshape(len(steps), -1)


def _stack(name: str, rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
    shapes = {row.shape for row in rows}
    if len(shapes) > 1:
        raise SpecError(f"{name}: the steps of an episode differ in shape, {sorted(shapes)}")
    (shape,) = shapes
    # Four times faster than ``np.stack`` on short rows.
    return np.concatenate(rows).reshape(len(rows), *shape) if shape else np.stack(rows)

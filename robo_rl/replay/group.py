"""Several episodes stored in one commit."""

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError, Source, Transition

from .files import EpisodeFiles
from .layout import Field, observation_fields, step_fields
from .writer import check_step, make_record, observation_row, step_row


def write_episodes(files: EpisodeFiles, episodes: Sequence[Sequence[Transition]]) -> int:
    """Write the rows of ``episodes``, then commit them together; see :meth:`EpisodeStore.append_episodes`."""
    spec = files.spec
    observations: list[Mapping[str, Any]] = []
    steps: list[Mapping[str, Any]] = []
    for episode in episodes:
        if not episode:
            raise DataError("an episode without a step cannot be stored")
        last = None
        for transition in episode:
            check_step(spec, transition, last)
            steps.append(step_row(spec, transition))
            observations.append(observation_row(transition.observation))
            last = transition
        observations.append(observation_row(episode[-1].next_observation))
    columns = _columns(step_fields(spec), steps), _columns(observation_fields(spec), observations)
    for start, block in zip((files.step_rows, files.observation_rows), columns, strict=True):
        for name, rows in block.items():
            files.write(name, start, rows)
    records = []
    step = observation = 0
    for episode in episodes:
        crc32 = {name: zlib.crc32(rows[step : step + len(episode)].data) for name, rows in columns[0].items()}
        stop = observation + len(episode) + 1
        crc32 |= {name: zlib.crc32(rows[observation:stop].data) for name, rows in columns[1].items()}
        step, observation = step + len(episode), stop
        sources = Counter(Source(transition.source).name.lower() for transition in episode)
        records.append(make_record(episode[0], episode[-1], sources, crc32))
    return files.commit(*records)


def _columns(fields: Sequence[Field], rows: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    columns = {}
    for field in fields:
        column = np.empty((len(rows), *field.shape), field.dtype)
        for number, row in enumerate(rows):
            column[number] = row[field.name]
        columns[field.name] = column
    return columns

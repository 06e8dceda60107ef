"""Readers of the files in a run folder, which may be damaged or hostile; the amount of data read is limited."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

from ..core import DataError, ForeignFolder, parse_json
from .run_values import check_episode, check_line, check_summary

METRICS_BYTES = 128 << 20
"""Most bytes that are read of metrics.jsonl. Of a longer file, half of this is read at the beginning and half at the
end."""
EPISODES = "evaluation.json"
"""File with the episodes of the final evaluation."""
LINE_BYTES = 64 << 10
"""Longest line of metrics.jsonl that is read."""
LINE_COLLECTIONS = 1000
"""Most lists and objects in a line of metrics.jsonl that is read."""


class Episode(NamedTuple):
    """An episode of the final evaluation: its number, its success if known, and elements of its first observation."""

    number: int
    success: bool | None
    start: Mapping[str, float]


def read_summary(folder: ForeignFolder) -> dict[str, Any]:
    """Return the content of summary.json.

    Raises:
        OSError: if it cannot be read; FileNotFoundError if it does not exist.
        DataError, AttributeError, KeyError, TypeError or ValueError: if it is damaged.
    """
    summary = folder.read_json("summary.json")
    check_summary(summary)
    return dict(summary)


def read_episodes(folder: ForeignFolder) -> list[Episode]:
    """Return the episodes of the final evaluation; an empty list if there was none or the file is damaged."""
    try:
        lines = folder.read_json(EPISODES)["episodes"]
        for line in lines:
            check_episode(line)
        return [Episode(line["index"], line["success"], line["start"]) for line in lines]
    except (DataError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def read_metrics(folder: ForeignFolder, problems: list[str]) -> tuple[Mapping[str, Any], ...]:
    """Return the readable lines of metrics.jsonl; add descriptions of problems to ``problems``."""
    lines, damaged = [], 0
    try:
        with folder.open("metrics.jsonl") as file, os.fdopen(file, "rb", closefd=False) as stream:
            size = os.fstat(file).st_size
            for row in _rows(stream, size):
                try:
                    if row.count("[") + row.count("{") > LINE_COLLECTIONS:
                        raise ValueError("too many lists and objects")
                    line = parse_json(row, "metrics.jsonl")
                    check_line(line)
                    lines.append(line)
                except (DataError, ValueError, KeyError, TypeError, AttributeError):
                    damaged += 1
    except FileNotFoundError:
        problems.append("metrics.jsonl is missing")
    except (DataError, OSError) as error:
        problems.append(f"metrics.jsonl cannot be read ({getattr(error, 'strerror', None) or error})")
    else:
        if size > METRICS_BYTES:
            gap = f"what lies between its first and last {METRICS_BYTES >> 21} MB is left out"
            problems.append(f"metrics.jsonl has {size >> 20:,} MB; {gap}")
    if damaged:
        problems.append(f"metrics.jsonl: {damaged} unreadable line{'s' * (damaged > 1)} left out")
    return tuple(lines)


def _rows(stream: BinaryIO, size: int) -> Iterator[str]:
    """Yield the lines of a file of ``size`` bytes; an empty line stands for each line that is too long."""
    half = METRICS_BYTES // 2
    parts = [(0, size)] if size <= METRICS_BYTES else [(0, half), (size - half, size)]
    for start, end in parts:
        stream.seek(start)
        remaining = end - start
        if start:
            remaining -= len(stream.readline(min(remaining, LINE_BYTES)))  # the line in which the gap ends
        while remaining > 0 and (row := stream.readline(min(remaining, LINE_BYTES))):
            remaining -= len(row)
            line = row
            while not row.endswith(b"\n") and remaining > 0 and (row := stream.readline(min(remaining, LINE_BYTES))):
                remaining -= len(row)
                line = b""  # too long
            if row.endswith(b"\n") or end == size:
                yield line.decode(errors="replace")

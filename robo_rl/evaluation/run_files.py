"""The files of a run folder, which may be anybody's: what can be read of them, bounded in size."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from ..core import DataError, ForeignFolder, parse_json
from .run_values import check_line, check_summary

METRICS_BYTES = 128 << 20
"""Most that is read of metrics.jsonl: of a longer one the beginning and the end, half of this each."""
LINE_BYTES = 64 << 10
"""Longest line of metrics.jsonl that counts."""


def read_summary(folder: ForeignFolder) -> dict[str, Any]:
    """Return what summary.json says.

    Raises:
        OSError: if it cannot be read; FileNotFoundError if it is not there.
        DataError, AttributeError, KeyError, TypeError or ValueError: if it is damaged.
    """
    summary = folder.read_json("summary.json")
    check_summary(summary)
    return dict(summary)


def read_metrics(folder: ForeignFolder, problems: list[str]) -> tuple[Mapping[str, Any], ...]:
    """Return the lines of metrics.jsonl that can be read; what is wrong with others is added to ``problems``."""
    lines, damaged = [], 0
    try:
        with folder.open("metrics.jsonl") as file, os.fdopen(file, "rb", closefd=False) as stream:
            size = os.fstat(file).st_size
            for row in _rows(stream, size):
                try:
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
            left_out = f"what lies between its first and last {METRICS_BYTES >> 21} MB is left out"
            problems.append(f"metrics.jsonl has {size >> 20:,} MB; {left_out}")
    if damaged:
        problems.append(f"metrics.jsonl: {damaged} unreadable line{'s' * (damaged > 1)} left out")
    return tuple(lines)


def _rows(stream: BinaryIO, size: int) -> Iterator[str]:
    """Yield the lines of a file of ``size`` bytes; an empty one in place of each that is too long."""
    half = METRICS_BYTES // 2
    parts = [(0, size)] if size <= METRICS_BYTES else [(0, half), (size - half, size)]
    for start, end in parts:
        stream.seek(start)
        left = end - start
        if start:
            left -= len(stream.readline(min(left, LINE_BYTES)))  # the line in which the gap ends
        while left > 0 and (row := stream.readline(min(left, LINE_BYTES))):
            left -= len(row)
            line = row
            while not row.endswith(b"\n") and left > 0 and (row := stream.readline(min(left, LINE_BYTES))):
                left -= len(row)
                line = b""  # too long: nobody can read it
            if row.endswith(b"\n") or end == size:
                yield line.decode(errors="replace")

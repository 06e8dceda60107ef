"""The file ``metrics.jsonl`` of a run, which consists of complete lines even on a full disk."""

import errno
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from robo_rl.core import Closing, DataError, parse_json, whole_number

METRICS_FILE = "metrics.jsonl"


class MetricsFile(Closing):
    """A file of JSON lines. Appended lines have reached the operating system when :meth:`append` returns.

    Args:
        path: file, created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._size = os.fstat(self._file.fileno()).st_size

    def append(self, lines: Sequence[str]) -> None:
        """Append ``lines``.

        Raises:
            OSError: if not all lines can be written; the file is unchanged then, and the same call may be repeated.
        """
        data = "".join(f"{line}\n" for line in lines).encode()
        try:
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self._file.fileno(), self._size)
            raise
        self._size += len(data)

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._file.close()


def read_metrics(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a ``metrics.jsonl``, without an incomplete last line.

    Raises:
        DataError: if a line is damaged; the message names the first one.
    """
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                record = parse_json(line, METRICS_FILE)
                complete = isinstance(record["kind"], str) and math.isfinite(record["wall_seconds"])
                whole_number(record["step"])
            except (DataError, ValueError, KeyError, TypeError, OverflowError):
                complete = False
            if not complete:
                raise DataError(f"{file}, line {number}: expected a JSON object with step, wall_seconds and kind")
            yield record

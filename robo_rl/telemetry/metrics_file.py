"""The file ``metrics.jsonl`` of a run: whole lines, on whatever disk."""

import errno
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from robo_rl.core import Closing, DataError, parse_json, whole_number

METRICS_FILE = "metrics.jsonl"


class MetricsFile(Closing):
    """Lines of JSON, appended. Each is with the operating system when :meth:`append` returns.

    Args:
        path: the file, made where it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._size = os.fstat(self._file.fileno()).st_size

    def append(self, lines: Sequence[str]) -> None:
        """Append ``lines``.

        Raises:
            OSError: if the disk takes less than all; the file is as it was, and the same call may be repeated.
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
        """Free the file. May be called twice."""
        self._file.close()


def read_metrics(file: Path) -> Iterator[dict[str, Any]]:
    """Read the records of a ``metrics.jsonl``, one by one; a last line that was not written to its end is left out.

    Raises:
        DataError: naming the first line that is damaged.
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

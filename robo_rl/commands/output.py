"""What is printed while robots act: a full disk, on which the output lies, ends no command."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Lenient:
    """A text stream that leaves out what the disk does not take."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with _unless_full():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with _unless_full():
            self._stream.flush()


@contextlib.contextmanager
def lenient_output() -> Iterator[None]:
    """Leave out, within the block, what the disk under standard output and error does not take."""
    streams = sys.stdout, sys.stderr
    with contextlib.redirect_stdout(_Lenient(streams[0])), contextlib.redirect_stderr(_Lenient(streams[1])):
        yield
    for stream in streams:
        try:
            stream.flush()
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # else the flush at exit fails again


@contextlib.contextmanager
def _unless_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise

"""Streams between commands and a terminal: foreign text cannot control it, and a full disk does not end a command."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from robo_rl.core import printable

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Stream:
    """A text stream that forwards to another one."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Printable(_Stream):
    """A text stream without control characters, see :func:`~robo_rl.core.printable`."""

    @property
    def rich_proxied_file(self) -> Any:
        """The stream that Rich writes to. robo-rl's Console removes foreign control characters; Rich adds its own."""
        return self._stream

    def write(self, text: str) -> int:
        self._stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)


class _Lenient(_Stream):
    """A text stream that drops text that does not fit on the disk."""

    @property
    def rich_proxied_file(self) -> Any:
        return _Lenient(getattr(self._stream, "rich_proxied_file", self._stream))

    def write(self, text: str) -> int:
        with _unless_full():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with _unless_full():
            self._stream.flush()


@contextlib.contextmanager
def printable_output() -> Iterator[None]:
    """Replace control characters in the output of the block: names and messages may come from anywhere."""
    with contextlib.redirect_stdout(_Printable(sys.stdout)), contextlib.redirect_stderr(_Printable(sys.stderr)):
        yield


@contextlib.contextmanager
def lenient_output() -> Iterator[None]:
    """Drop output of the block that does not fit on the disk, on standard output and error."""
    streams = sys.stdout, sys.stderr
    with contextlib.redirect_stdout(_Lenient(streams[0])), contextlib.redirect_stderr(_Lenient(streams[1])):
        yield
    for stream in streams:
        try:
            stream.flush()
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # otherwise the flush at exit fails again


@contextlib.contextmanager
def _unless_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise

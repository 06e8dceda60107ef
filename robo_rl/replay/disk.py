"""Durable writes: a killed process or a full disk never damages data that was stored before."""

import asyncio
import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import LocalStore

from robo_rl.core import DataError, read_bytes, sync_folder, write_durably

METADATA = "zarr.json"
METADATA_BYTES = 1 << 20
LOG_BYTES = 1 << 30

_HINTS = {
    errno.ENOSPC: "free space on this disk and try again",
    errno.EDQUOT: "free space in your quota and try again",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f) and try again",
    errno.EROFS: "choose a path on a writable disk",
    errno.EACCES: "choose a path that you may write, or change its permissions",
    errno.EPERM: "choose a path that you may write, or change its permissions",
}


@contextlib.contextmanager
def disk_errors(path: Path, doing: str) -> Iterator[None]:
    """Convert an OSError within the block into a :class:`DataError` with advice; ``doing`` names the failed action."""
    try:
        yield
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "check the disk and the path")
        reason = error.strerror or str(error)
        raise DataError(f"{path}: cannot {doing}: {reason}; {hint}. Episodes stored earlier are intact") from error


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents; on return their names have been flushed to disk."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def refuse_link(path: Path) -> None:
    """Reject a symbolic link, because a data set from another person could otherwise change any file of this user.

    Raises:
        DataError: if ``path`` is one.
    """
    if path.is_symlink():
        raise DataError(
            f"{path} is a link to {path.readlink()}, and a data set writes only to its own files: replace the link by "
            "what it points to, or link the folder of the whole data set"
        )


class DurableStore(LocalStore):
    """Zarr's store of local files, with atomic writes that are flushed to disk.

    Zarr rewrites a chunk or shard that an earlier episode shares with the current one. Without atomic writes, a crash
    could then damage the earlier episode.

    Metadata is read only from regular files of at most ``METADATA_BYTES``.
    """

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        if key.rpartition("/")[2] != METADATA:
            return await super().get(key, prototype, byte_range)
        try:
            data = await asyncio.to_thread(read_bytes, self.root / key, METADATA_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    async def set(self, key: str, value: Buffer) -> None:
        await asyncio.to_thread(self.set_sync, key, value)

    def set_sync(self, key: str, value: Buffer) -> None:
        self._check_writable()
        path = self.root / key
        make_folder(path.parent)
        write_durably(path, value.to_bytes())


class CommitLog:
    """Append-only file of lines; a complete line is committed. Several threads may write.

    Args:
        path: the file, which must exist.
        writable: lock the file exclusively, and remove a line that a killed writer left incomplete.

    Raises:
        DataError: if the file is missing, cannot be opened, is not a regular file, is larger than ``LOG_BYTES``, or is
            being written by another process; with ``writable``, also if it is a link.
    """

    def __init__(self, path: Path, writable: bool) -> None:
        self._path = path
        with disk_errors(path, "open the list of episodes"):
            # Do not block on a named pipe, which ``read_bytes`` rejects.
            if writable:
                refuse_link(path)
            access = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW if writable else os.O_RDONLY
            descriptor = os.open(path, access | os.O_NONBLOCK | os.O_CLOEXEC)
            # Opened as a file object, so that the lock is released even if a data set is not closed explicitly.
            self._file = os.fdopen(descriptor, "r+b" if writable else "rb", buffering=0)
            if writable:
                self._lock()
            *complete_lines, remainder = read_bytes(path, LOG_BYTES).split(b"\n")
            self.lines = complete_lines
            self._writing = threading.Lock()
            if writable and remainder:
                self._truncate()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise DataError(
                f"{self._path.parent}: another process is recording into this data set; wait until it ends, or record "
                "into another path"
            ) from error

    def append(self, *lines: bytes) -> None:
        """Commit lines (without newlines) in one write; on return they have been flushed to disk."""
        data = b"".join(line + b"\n" for line in lines)
        with self._writing:
            try:
                if os.write(self._file.fileno(), data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._file.fileno())
            except OSError:
                self._truncate()
                raise
            self.lines.extend(lines)

    def drop_last(self) -> None:
        """Remove the newest line."""
        with self._writing:
            self.lines.pop()
            self._truncate()

    def _truncate(self) -> None:
        """Truncate the file to the committed lines."""
        self._file.truncate(sum(len(line) + 1 for line in self.lines))
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file and release its lock. May be called twice."""
        self._file.close()

"""Writer of a spool's current file, and the thread that flushes it to disk."""

import contextlib
import errno
import os
import threading
from pathlib import Path

from robo_rl.core import sync_folder

from .spool_session import Place, SpoolSession, header

FILE_BYTES = 8 << 20
"""Size at which the next file is begun. Only whole files are deleted."""


class SpoolWriter:
    """Appends records to files, and flushes them to disk in a separate thread.

    Args:
        lock: lock of the spool, which callers of :meth:`write`, :meth:`finish_file` and :meth:`drop_file` must hold.
        sync_seconds: time between flushes to disk [s].
    """

    def __init__(self, lock: threading.RLock, sync_seconds: float) -> None:
        self._lock = lock
        self._sync_seconds = sync_seconds
        self._descriptor: int | None = None  # descriptor of the current file
        self._size = 0  # size of the current file [bytes]
        self._finished: list[int] = []  # descriptors of full files, to be flushed and closed
        self._changed_folders: set[Path] = set()  # folders with new entries, to be flushed
        self._fault: OSError | None = None  # error of the thread, to be raised by the next ``write``
        self._dirty = False
        self._closing = threading.Event()
        self._syncer = threading.Thread(target=self._sync_regularly, name="spool-sync", daemon=True)
        self._syncer.start()

    def name(self, folder: Path) -> None:
        """Mark ``folder`` as having a new entry, which must be flushed to disk."""
        self._changed_folders.add(folder)

    def write(self, session: SpoolSession, sequence: int, record: bytes) -> Place:
        """Append a record, all of it or nothing; return its location.

        Raises:
            OSError: if the write fails, or if a flush by the thread has failed since the last call.
        """
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault
        descriptor, file = self._file_for(session, sequence)
        head = header(sequence, record)
        size = len(head) + len(record)
        try:
            if os.writev(descriptor, (head, record)) != size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(descriptor, self._size)
            raise
        self._size += size
        self._dirty = True
        return Place(file, self._size - len(record), len(record))

    def _file_for(self, session: SpoolSession, sequence: int) -> tuple[int, Path]:
        """Return descriptor and path of the file to append the record to."""
        if self._descriptor is None or self._size >= FILE_BYTES:
            file = session.folder / f"{sequence:015d}.spool"
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self.finish_file()
            self._descriptor, self._size = descriptor, os.fstat(descriptor).st_size
            if file not in session.files:
                session.files.append(file)
                self._changed_folders.add(session.folder)
        return self._descriptor, session.files[-1]

    def finish_file(self) -> None:
        """End the current file; the next flush closes it."""
        if self._descriptor is not None:
            self._finished.append(self._descriptor)
            self._descriptor = None

    def drop_file(self) -> None:
        """Close the current file without flushing it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def sync(self) -> None:
        """Flush appended records to disk.

        Raises:
            OSError: if this fails; the next call tries again.
        """
        with self._lock:
            finished, self._finished = self._finished, []
            folders, self._changed_folders = self._changed_folders, set()
            current = os.dup(self._descriptor) if self._dirty and self._descriptor is not None else None
            self._dirty = False
        try:
            while finished:
                os.fdatasync(finished[0])
                os.close(finished.pop(0))
            if current is not None:
                os.fdatasync(current)
            for folder in sorted(folders):  # after the files, so that an entry on disk always has its content
                with contextlib.suppress(FileNotFoundError):  # the session was settled meanwhile
                    sync_folder(folder)
        except OSError:
            with self._lock:
                self._finished, self._changed_folders, self._dirty = (
                    finished + self._finished,
                    self._changed_folders | folders,
                    True,
                )
            raise
        finally:
            if current is not None:
                os.close(current)

    def _sync_regularly(self) -> None:
        while not self._closing.wait(self._sync_seconds):
            try:
                self.sync()
            except OSError as error:  # the next ``write`` raises it in the control loop
                with self._lock:
                    self._fault = error

    def close(self) -> bool:
        """Flush all records to disk and end the thread; return whether this was the first call."""
        if self._closing.is_set():
            return False
        self._closing.set()
        self._syncer.join()
        with contextlib.suppress(OSError):
            self.sync()
        with self._lock:
            self.drop_file()
        return True

"""The file that a spool writes at present, and the thread that brings it to the disk."""

import contextlib
import errno
import os
import threading
from pathlib import Path

from robo_rl.core import sync_folder

from .spool_session import Place, SpoolSession, header

FILE_BYTES = 8 << 20
"""A file is begun when the last one has reached this size; files are deleted whole."""


class SpoolWriter:
    """Appends records to files, and brings them to the disk from a thread of its own.

    Args:
        lock: of the spool, held by callers of :meth:`write`, :meth:`finish_file` or :meth:`drop_file`.
        sync_seconds: time between synchronisations with the disk [s].
    """

    def __init__(self, lock: threading.RLock, sync_seconds: float) -> None:
        self._lock = lock
        self._sync_seconds = sync_seconds
        self._writing: int | None = None
        self._written = 0
        self._finished: list[int] = []  # files that are full, to be brought to the disk and closed
        self._named: set[Path] = set()  # folders with new names, to be brought to the disk
        self._fault: OSError | None = None  # that kept the thread from bringing records to the disk
        self._dirty = False
        self._closing = threading.Event()
        self._syncer = threading.Thread(target=self._sync_regularly, name="spool-sync", daemon=True)
        self._syncer.start()

    def name(self, folder: Path) -> None:
        """Take note that ``folder`` holds a new name."""
        self._named.add(folder)

    def write(self, session: SpoolSession, sequence: int, record: bytes) -> Place:
        """Append a record, all of it or nothing; return where it stands.

        Raises:
            OSError: if the disk refuses, or refused in the thread since the last call.
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
            os.ftruncate(descriptor, self._written)
            raise
        self._written += size
        self._dirty = True
        return Place(file, self._written - len(record), len(record))

    def _file_for(self, session: SpoolSession, sequence: int) -> tuple[int, Path]:
        """Return descriptor and name of the file that takes the record."""
        if self._writing is None or self._written >= FILE_BYTES:
            file = session.folder / f"{sequence:015d}.spool"
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self.finish_file()
            self._writing, self._written = descriptor, os.fstat(descriptor).st_size
            if file not in session.files:
                session.files.append(file)
                self._named.add(session.folder)
        return self._writing, session.files[-1]

    def finish_file(self) -> None:
        """End the file, which is brought to the disk and closed with the next synchronisation."""
        if self._writing is not None:
            self._finished.append(self._writing)
            self._writing = None

    def drop_file(self) -> None:
        """Close the file, which nobody needs any more, or which is on the disk."""
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None

    def sync(self) -> None:
        """Bring what was appended to the disk.

        Raises:
            OSError: if the disk refuses; all of it is still owed then.
        """
        with self._lock:
            finished, self._finished = self._finished, []
            folders, self._named = self._named, set()
            current = os.dup(self._writing) if self._dirty and self._writing is not None else None
            self._dirty = False
        try:
            while finished:
                os.fdatasync(finished[0])
                os.close(finished.pop(0))
            if current is not None:
                os.fdatasync(current)
            for folder in sorted(folders):  # the names last: a name on the disk has its content
                with contextlib.suppress(FileNotFoundError):  # settled meanwhile
                    sync_folder(folder)
        except OSError:
            with self._lock:
                self._finished, self._named, self._dirty = finished + self._finished, self._named | folders, True
            raise
        finally:
            if current is not None:
                os.close(current)

    def _sync_regularly(self) -> None:
        while not self._closing.wait(self._sync_seconds):
            try:
                self.sync()
            except OSError as error:  # the control loop must know: the next ``write`` raises it
                with self._lock:
                    self._fault = error

    def close(self) -> bool:
        """Bring everything to the disk and end the thread; return whether this was the first call."""
        if self._closing.is_set():
            return False
        self._closing.set()
        self._syncer.join()
        with contextlib.suppress(OSError):
            self.sync()
        with self._lock:
            self.drop_file()
        return True

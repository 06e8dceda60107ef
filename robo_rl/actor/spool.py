"""Spool of an actor, which keeps each step on disk until the learner has stored it."""

import contextlib
import errno
import fcntl
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from robo_rl.core import Closing, DataError, parse_json, read_bytes, require, write_durably

from .spool_session import Place, SpoolSession, read_places
from .spool_writer import SpoolWriter

_RUN = "run.json"


class SpoolFullError(DataError):
    """Lack of room for another step in the spool: its capacity or the disk is exhausted."""


class Spool(Closing):
    """Queue of encoded steps on disk, by session.

    **Durability.** ``append`` returns when the operating system has the record, which then survives if the process is
    killed. A thread flushes the records to disk every ``sync_seconds``, so a power failure loses at most the records of
    that time. The flush has a separate thread because it may take 100 ms, for which a control loop cannot wait.

    Only one process at a time may use a spool, with any number of threads.

    Args:
        path: folder; it is made if it is missing.
        capacity_bytes: largest number of bytes to hold.
        sync_seconds: time between flushes to disk [s].

    Attributes:
        path: the argument.
        held_bytes: bytes of the stored steps.
        damaged_bytes: bytes of incomplete records that a crash left at the ends of files, and that were removed.
        sync: flushes appended records to disk.

    Raises:
        DataError: if another process uses the spool, or it cannot be written.
    """

    def __init__(self, path: Path, capacity_bytes: int = 4 << 30, sync_seconds: float = 1.0) -> None:
        require(capacity_bytes >= 1, "spool capacity", "1 byte or more", capacity_bytes)
        require(sync_seconds > 0, "spool sync time", "above 0", sync_seconds)
        self.path = path
        self._capacity = capacity_bytes
        with _disk_errors(path, "open the spool"):
            path.mkdir(parents=True, exist_ok=True)
            self._lock_file = (path / "lock").open("w")
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                self._lock_file.close()
                raise DataError(
                    f"{path}: another actor uses this spool; give each actor a separate name or folder"
                ) from error
            folders = sorted(path.glob("session_*"))
            self._sessions = {int(folder.name.removeprefix("session_")): SpoolSession(folder) for folder in folders}
        self.held_bytes = sum(session.held_bytes for session in self._sessions.values())
        self.damaged_bytes = sum(session.damaged_bytes for session in self._sessions.values())
        self._current: int | None = None
        self._lock = threading.RLock()
        self._writer = SpoolWriter(self._lock, sync_seconds)
        self.sync = self._writer.sync

    # --- contents ----------------------------------------------------------------------------------------------------

    @property
    def run(self) -> str:
        """Run that the stored steps belong to; empty if there are none."""
        file = self.path / _RUN
        if not self.held_records or not file.exists():
            return ""
        try:
            return str(parse_json(read_bytes(file, 4096), str(file))["run"])
        except (DataError, OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{file} is damaged ({error}); restore it, or choose another spool folder") from error

    @property
    def held_records(self) -> int:
        """Number of stored steps."""
        with self._lock:
            return sum(len(session.places) for session in self._sessions.values())

    @property
    def newest_session(self) -> int:
        """Largest session number in the spool; 0 if there is none."""
        return max(self._sessions, default=0)

    def sessions(self) -> list[int]:
        """Return the sessions in the spool, oldest first."""
        with self._lock:
            return sorted(self._sessions)

    def extent(self, session: int) -> tuple[int, int]:
        """Return the smallest stored sequence number, and the largest one plus 1."""
        with self._lock:
            spool_session = self._sessions[session]
            return spool_session.first, spool_session.end

    def read(self, session: int, sequence: int, max_bytes: int) -> list[bytes]:
        """Return steps from ``sequence`` on, up to ``max_bytes`` but at least one step if there is one.

        Raises:
            DataError: if a file has been damaged since it was written.
        """
        with self._lock:
            places = self._sessions[session].places_from(sequence, max_bytes)
        # Read without the lock, because the control loop needs it. Only the reading thread deletes files.
        return read_places(places)

    # --- writing -----------------------------------------------------------------------------------------------------

    def bind(self, run: str) -> None:
        """Assign the spool to a run.

        Raises:
            DataError: if it holds steps of another run.
        """
        if self.held_records:
            if self.run == run:
                return
            raise DataError(
                f"{self.path} holds {self.held_records} steps of run {self.run or 'unknown'}, but the learner is of "
                f"run {run}: connect to the learner of that run until they are sent, or choose another spool folder"
            )
        with _disk_errors(self.path, "write"):
            write_durably(self.path / _RUN, json.dumps({"run": run}).encode())
        for session in self.sessions():
            self.drop_session(session)

    def begin_session(self, session: int) -> None:
        """Make ``session`` the current session, to which steps are appended."""
        with self._lock, _disk_errors(self.path, "begin a session"):
            folder = self.path / f"session_{session:012d}"
            folder.mkdir()
            self._writer.name(self.path)
            self._writer.finish_file()
            self._sessions[session] = SpoolSession(folder)
            self._current = session

    def append(self, sequence: int, record: bytes) -> None:
        """Add the next step of the current session.

        Raises:
            SpoolFullError: if there is no room; nothing was written then, and the call may be repeated.
            DataError: if writing fails for another reason.
            RuntimeError: if no session was begun, or ``sequence`` does not follow the step before.
        """
        with self._lock:
            if self.held_bytes + len(record) > self._capacity:
                raise SpoolFullError(
                    f"{self.path}: the spool is full ({self.held_bytes / 1e6:.0f} MB); "
                    "bring the learner back, or free it"
                )
            self._append(sequence, record)

    def append_last(self, sequence: int, record: bytes) -> bool:
        """Add the last step of the current session, even beyond the capacity, after :meth:`append` found no room.

        Returns:
            False if the disk has no room either. The step is then only in memory, and is lost if the process ends
            before the learner has received it.

        Raises:
            DataError: if writing fails for another reason.
        """
        with self._lock:
            try:
                self._append(sequence, record)
            except SpoolFullError:
                assert self._current is not None
                self._sessions[self._current].hold(sequence, Place(None, 0, len(record), record))
                self.held_bytes += len(record)
                return False
        return True

    def _append(self, sequence: int, record: bytes) -> None:
        if self._current is None:
            raise RuntimeError("begin a session before its steps are appended")
        session = self._sessions[self._current]
        if not session.files and sequence != session.end:
            session.first = session.end = sequence
        if sequence != session.end:
            raise RuntimeError(f"expected step {session.end} of session {self._current}, got {sequence}")
        with _disk_errors(self.path, "append to the spool"):
            place = self._writer.write(session, sequence, record)
        session.hold(sequence, place)
        self.held_bytes += place.size

    def settle(self, session: int, sequence: int) -> None:
        """Remove the steps below ``sequence``, which the learner has stored or counted as refused."""
        with self._lock:
            freed_bytes, settled_files = self._sessions[session].forget(sequence)
            self.held_bytes -= freed_bytes
        for file in settled_files:  # without the lock, because deletion may be slow and the control loop needs the lock
            file.unlink(missing_ok=True)

    def drop_session(self, session: int) -> None:
        """Remove a session that has ended and is settled."""
        with self._lock:
            dropped = self._sessions.pop(session)
            self.held_bytes -= dropped.held_bytes
            if session == self._current:
                self._current = None
                self._writer.drop_file()
        shutil.rmtree(dropped.folder, ignore_errors=True)

    def close(self) -> None:
        """Flush all records to disk and release the folder. May be called twice."""
        if self._writer.close():
            self._lock_file.close()


@contextlib.contextmanager
def _disk_errors(path: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SpoolFullError(f"{path}: cannot {doing}: {reason}; free space on this disk") from error
        if error.errno == errno.EFBIG:
            raise SpoolFullError(f"{path}: cannot {doing}: {reason}; raise the limit on file sizes (ulimit)") from error
        raise DataError(f"{path}: cannot {doing}: {reason}; check the disk and the folder's permissions") from error

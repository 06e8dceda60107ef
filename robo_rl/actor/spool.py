"""The actor's spool: every step lies on disk before it is sent, until the learner has it on its own."""

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
    """There is no room for another step: its capacity or the disk is used up."""


class Spool(Closing):
    """A queue of encoded steps on disk, by session.

    **Durability.** ``append`` returns when the operating system has the record: from then on the process may be killed
    at any moment. A thread brings the records to the disk every ``sync_seconds``: a power cut costs at most what that
    time produced. It is a thread of its own since a disk may take 100 ms, and the control loop may not.

    One process at a time, several threads.

    Args:
        path: folder, made where it is missing.
        capacity_bytes: most bytes to hold.
        sync_seconds: time between synchronisations with the disk [s].

    Attributes:
        path: as given.
        held_bytes: bytes of the steps held.
        damaged_bytes: bytes at the ends of files that a power cut left half written, and that were cut off.
        sync: brings what was appended to the disk.

    Raises:
        DataError: if another process uses it, or it cannot be written.
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
                    f"{path}: another actor uses this spool; give each actor a name or a folder of its own"
                ) from error
            folders = sorted(path.glob("session_*"))
            self._sessions = {int(folder.name.removeprefix("session_")): SpoolSession(folder) for folder in folders}
        self.held_bytes = sum(session.held_bytes for session in self._sessions.values())
        self.damaged_bytes = sum(session.damaged_bytes for session in self._sessions.values())
        self._current: int | None = None
        self._lock = threading.RLock()
        self._writer = SpoolWriter(self._lock, sync_seconds)
        self.sync = self._writer.sync

    # --- what it holds -----------------------------------------------------------------------------------------------

    @property
    def run(self) -> str:
        """Run that the steps held belong to; empty where none is held."""
        file = self.path / _RUN
        if not self.held_records or not file.exists():
            return ""
        try:
            return str(parse_json(read_bytes(file, 4096), str(file))["run"])
        except (DataError, OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{file} is damaged ({error}); restore it, or choose another spool folder") from error

    @property
    def held_records(self) -> int:
        """Number of steps held."""
        with self._lock:
            return sum(len(session.places) for session in self._sessions.values())

    @property
    def newest_session(self) -> int:
        """Largest session number seen; 0: none."""
        return max(self._sessions, default=0)

    def sessions(self) -> list[int]:
        """Return the sessions that are not settled to their end, oldest first."""
        with self._lock:
            return sorted(self._sessions)

    def extent(self, session: int) -> tuple[int, int]:
        """Return the smallest sequence number held and the one after the largest."""
        with self._lock:
            held = self._sessions[session]
            return held.first, held.end

    def read(self, session: int, sequence: int, max_bytes: int) -> list[bytes]:
        """Return the steps from ``sequence`` on: at least one if there is one, else up to ``max_bytes``.

        Raises:
            DataError: if a file has been damaged since it was written.
        """
        with self._lock:
            places = self._sessions[session].places_from(sequence, max_bytes)
        # Outside the lock, which the control loop needs; only the reader itself lets files be deleted.
        return read_places(places)

    # --- writing -----------------------------------------------------------------------------------------------------

    def bind(self, run: str) -> None:
        """Give the spool to a run.

        Raises:
            DataError: if it holds steps of another.
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
        """Make ``session`` the one that steps are appended to; no step is appended to the one before any more."""
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
            SpoolFullError: if there is no room; nothing was written then, and the same call may be repeated.
            DataError: if the disk refuses for another reason.
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
        """Add the last step of the current session where :meth:`append` found no room: beyond the capacity.

        Returns:
            False if the disk has no room either. The step is in memory then, and lost where the learner does not take
            it while this process lasts.

        Raises:
            DataError: if the disk refuses for another reason.
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
        """Forget the steps below ``sequence``: the learner has them, or has counted them as refused."""
        with self._lock:
            freed, settled = self._sessions[session].forget(sequence)
            self.held_bytes -= freed
        for file in settled:  # outside the lock: a disk may take its time, and the control loop needs the lock
            file.unlink(missing_ok=True)

    def drop_session(self, session: int) -> None:
        """Forget a session that has ended and is settled."""
        with self._lock:
            held = self._sessions.pop(session)
            self.held_bytes -= held.held_bytes
            if session == self._current:
                self._current = None
                self._writer.drop_file()
        shutil.rmtree(held.folder, ignore_errors=True)

    def close(self) -> None:
        """Bring everything to the disk and free the folder. May be called twice."""
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

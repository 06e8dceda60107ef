"""The actor's spool: every step lies on disk before it is sent, until the learner has it on its own."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import struct
import threading
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from isal import isal_zlib

from robo_rl.core import Closing, DataError, parse_json, read_bytes, require, sync_folder, write_durably

FILE_BYTES = 8 << 20
"""A file is begun when the last one has reached this size; files are deleted whole."""

_HEADER = struct.Struct("<QII")
"""Of each record: sequence number, length and CRC-32 of what follows."""

_RUN = "run.json"


class SpoolFullError(DataError):
    """There is no room for another step: its capacity or the disk is used up."""


class _Place(NamedTuple):
    """Where a record stands: in a file; or with None for it, here in memory alone."""

    file: Path | None
    offset: int
    size: int
    record: bytes = b""


class _Session:
    """The records of one session on disk, and where each stands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places: dict[int, _Place] = {}
        self.files: list[Path] = []
        self.first = 0
        self.end = 0
        self.damaged_bytes = 0
        for file in sorted(folder.glob("*.spool")):
            self._scan(file)
        self.first = min(self.places, default=self.end)

    def _scan(self, file: Path) -> None:
        """Index the whole records of ``file``; what a crash of the machine left half written is cut off."""
        data = file.read_bytes()
        if not self.files:
            self.end = int(file.stem)
        self.files.append(file)
        offset = 0
        while offset + _HEADER.size <= len(data):
            sequence, size, checksum = _HEADER.unpack_from(data, offset)
            start = offset + _HEADER.size
            payload = data[start : start + size]
            if sequence != self.end or len(payload) != size or isal_zlib.crc32(payload) != checksum:
                break
            self.places[sequence] = _Place(file, start, size)
            self.end = sequence + 1
            offset = start + size
        if offset < len(data):
            self.damaged_bytes += len(data) - offset
            os.truncate(file, offset)


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
            self._sessions = {int(folder.name.removeprefix("session_")): _Session(folder) for folder in folders}
        self._bytes = sum(place.size for session in self._sessions.values() for place in session.places.values())
        self._current: int | None = None
        self._writing: int | None = None
        self._written = 0
        self._finished: list[int] = []  # files that are full, to be brought to the disk and closed
        self._named: set[Path] = set()  # folders with new names, to be brought to the disk
        self._fault: OSError | None = None  # that kept the thread from bringing records to the disk
        self._lock = threading.RLock()
        self._dirty = False
        self._closing = threading.Event()
        self._sync_seconds = sync_seconds
        self._syncer = threading.Thread(target=self._sync_regularly, name="spool-sync", daemon=True)
        self._syncer.start()

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
    def held_bytes(self) -> int:
        """Bytes of the steps held."""
        return self._bytes

    @property
    def newest_session(self) -> int:
        """Largest session number seen; 0: none."""
        return max(self._sessions, default=0)

    @property
    def damaged_bytes(self) -> int:
        """Bytes at the ends of files that a power cut left half written, and that were cut off."""
        return sum(session.damaged_bytes for session in self._sessions.values())

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
        places: list[_Place] = []
        total = 0
        with self._lock:
            held = self._sessions[session].places
            while (place := held.get(sequence)) is not None and (not places or total + place.size <= max_bytes):
                places.append(place)
                total += place.size
                sequence += 1
        # Outside the lock, which the control loop needs; only the reader itself lets files be deleted.
        records = []
        for file, group in groupby(places, lambda place: place.file):
            if file is None:
                records += [place.record for place in group]
                continue
            with file.open("rb") as stream:
                for place in group:
                    data = os.pread(stream.fileno(), place.size, place.offset)
                    if len(data) != place.size:
                        raise DataError(f"{file} is shorter than it was written; do not change a spool that is in use")
                    records.append(data)
        return records

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
        """Make ``session`` the one that steps are appended to."""
        with self._lock, _disk_errors(self.path, "begin a session"):
            folder = self.path / f"session_{session:012d}"
            folder.mkdir()
            self._named.add(self.path)
            self._sessions[session] = _Session(folder)
            self._current = session

    def append(self, sequence: int, record: bytes) -> None:
        """Add the next step of the current session.

        Raises:
            SpoolFullError: if there is no room; nothing was written then, and the same call may be repeated.
            DataError: if the disk refuses for another reason.
            RuntimeError: if no session was begun, or ``sequence`` does not follow the step before.
        """
        with self._lock:
            if self._bytes + len(record) > self._capacity:
                raise SpoolFullError(
                    f"{self.path}: the spool is full ({self._bytes / 1e6:.0f} MB); bring the learner back, or free it"
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
                self._hold(self._sessions[self._current], sequence, _Place(None, 0, len(record), record))
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
        header = _HEADER.pack(sequence, len(record), isal_zlib.crc32(record))
        with _disk_errors(self.path, "append to the spool"):
            fault, self._fault = self._fault, None
            if fault is not None:
                raise fault
            file = self._file_for(session, sequence)
            self._write(header, record)
        self._hold(session, sequence, _Place(file, self._written - len(record), len(record)))
        self._dirty = True

    def _hold(self, session: _Session, sequence: int, place: _Place) -> None:
        session.places[sequence] = place
        session.end = sequence + 1
        self._bytes += place.size

    def _file_for(self, session: _Session, sequence: int) -> Path:
        if self._writing is None or self._written >= FILE_BYTES:
            file = session.folder / f"{sequence:015d}.spool"
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            if self._writing is not None:
                self._finished.append(self._writing)
            self._writing, self._written = descriptor, os.fstat(descriptor).st_size
            if file not in session.files:
                session.files.append(file)
                self._named.add(session.folder)
        return session.files[-1]

    def _write(self, header: bytes, record: bytes) -> None:
        """Write all of both, or nothing."""
        assert self._writing is not None
        size = len(header) + len(record)
        try:
            if os.writev(self._writing, (header, record)) != size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self._writing, self._written)
            raise
        self._written += size

    def settle(self, session: int, sequence: int) -> None:
        """Forget the steps below ``sequence``: the learner has them, or has counted them as refused."""
        with self._lock:
            held = self._sessions[session]
            for number in range(held.first, min(sequence, held.end)):
                self._bytes -= held.places.pop(number).size
            held.first = max(held.first, min(sequence, held.end))
            settled = []
            # The last file may be written still; it goes with its session.
            while len(held.files) > 1 and int(held.files[1].stem) <= held.first:
                settled.append(held.files.pop(0))
        for file in settled:  # outside the lock: a disk may take its time, and the control loop needs the lock
            file.unlink(missing_ok=True)

    def drop_session(self, session: int) -> None:
        """Forget a session that has ended and is settled."""
        with self._lock:
            held = self._sessions.pop(session)
            self._bytes -= sum(place.size for place in held.places.values())
            if session == self._current:
                self._current = None
                self._close_file()
        shutil.rmtree(held.folder, ignore_errors=True)

    def sync(self) -> None:
        """Bring what was appended to the disk."""
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
        except OSError:  # all of it is still owed
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
            except OSError as error:  # the control loop must know: the next ``append`` raises it
                with self._lock:
                    self._fault = error

    def _close_file(self) -> None:
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None

    def close(self) -> None:
        """Bring everything to the disk and free the folder. May be called twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._syncer.join()
        with contextlib.suppress(OSError):
            self.sync()
        with self._lock:
            self._close_file()
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

"""Files whose existence stops robots, read within a control period whatever has happened to them."""

import contextlib
import os
import stat
import threading
import weakref
from pathlib import Path

from .durable import sync_folder
from .errors import DriverError
from .options import require
from .text import printable

TEXT_BYTES = 512
"""Number of bytes that are read of a file: reasons are short, but the file may be huge or endless."""

_HELD = getattr(os, "O_PATH", os.O_RDONLY)
"""Flag for opening a folder without the permission to read it; only Linux has one."""

_latched: dict[Path, str] = {}
"""Reasons of the stops of this process whose file could not be created, by file."""


def plain_text(text: str, limit: int = TEXT_BYTES) -> str:
    """Return ``text`` on one line of at most ``limit`` characters, without control characters for terminals."""
    return " ".join(printable(text[: 4 * limit]).split())[:limit]


def read_short(file: Path, size: int = TEXT_BYTES) -> str | None:
    """Return the first ``size`` bytes of a regular file; None for anything else, or if it cannot be read.

    The call never blocks: a FIFO without a writer, a device, a folder and a symbolic link return None.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(file, flags)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.read(descriptor, size).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)


class Latch:
    """A stop that holds while a file exists, in every process that watches the same file.

    A missing folder is not the same as a missing file. If the folder of the file is removed, renamed or replaced while
    a process watches it, it is unknown whether the stop was pressed, so it is pressed again, in a new folder. A twin
    file beside the folder records that the latch was pressed and not released. Removing the file alone therefore does
    not release it, neither for processes that watch it nor for those that start later.

    Args:
        file: the file whose existence is the stop; a ``~`` at its beginning is the home folder.

    Raises:
        ConfigError: if it is a folder, which would always exist.
        DriverError: if its folder cannot be created.
    """

    def __init__(self, file: Path) -> None:
        # A shell expands file=~/stop for `robo-rl stop`, but not safety.emergency_stop.file=~/stop for a run.
        self.file = file.expanduser()
        self._twin = _twin_of(self.file)
        require(not self.file.is_dir(), "safety.emergency_stop.file", "a file, not a folder", str(self.file))
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DriverError(
                f"the folder of the emergency stop, {self.file.parent}, cannot be created ({error.strerror}): "
                "use another file with safety.emergency_stop.file, or file=PATH for stop, rearm and enable"
            ) from error
        self._folder = _Folder(self.file.parent)
        self._restore()

    def press(self, reason: str) -> bool:
        """Stop all processes that watch this file; return whether the file could be written.

        If it could not, only this process stays stopped. On return, the file is on disk.
        """
        _latched[self.file] = reason
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._folder = _Folder(self.file.parent)
            _write(self.file, reason)
            _latched.pop(self.file, None)  # the file is the latch now
            sync_folder(self.file.parent)
        if self._twin is not None:
            with contextlib.suppress(OSError):
                _write(self._twin, reason)
                if self.file not in _latched and not os.path.lexists(self.file):  # a person re-armed meanwhile
                    self._twin.unlink(missing_ok=True)
        return self.file not in _latched

    def pressed(self) -> str | None:
        """Return the reason for which robots are stopped, or None. Takes microseconds."""
        if self.file in _latched:
            return _latched[self.file]
        try:
            os.lstat(self.file)
        except FileNotFoundError:
            if not self._folder.is_in_place():
                self.press(
                    f"the folder of the emergency stop, {self.file.parent}, was removed or replaced, so it is unknown "
                    "whether it was pressed"
                )
            elif not self._restore():
                return None
        except OSError as error:
            return f"{self.file} cannot be checked ({error.strerror})"
        else:
            if not self._folder.is_in_place():
                self._folder = _Folder(self.file.parent)
        return _latched.get(self.file) or plain_text(read_short(self.file) or "") or "emergency stop"

    def _restore(self) -> bool:
        """Press again a latch whose file was removed without re-arming; return whether it is pressed now."""
        if self._twin is None or not os.path.lexists(self._twin):
            return False
        if os.path.lexists(self.file):
            return True
        if not os.path.lexists(self._twin):  # a person re-arms just now, which removes the twin before the file
            return False
        reason = plain_text(read_short(self._twin) or "") or "emergency stop"
        note = f"; its file {self.file} was removed, but nobody re-armed"
        self.press(reason.removesuffix(note) + note)
        return True

    def rearm(self) -> bool:
        """Allow motion again; return whether it was stopped. Only a person may call this.

        Raises:
            DriverError: if the file cannot be removed.
        """
        was_pressed = self.pressed() is not None
        try:
            if self._twin is not None and os.path.lexists(self._twin):  # read-only disks refuse to remove even nothing
                self._twin.unlink(missing_ok=True)
            self.file.unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(
                f"{error.filename} cannot be removed ({error.strerror}): robots stay stopped until you remove it by "
                "hand"
            ) from error
        _latched.pop(self.file, None)
        return was_pressed


def _twin_of(file: Path) -> Path | None:
    """Return the file that records a press if the folder of ``file`` is removed; None for a root folder."""
    folder = file.absolute().parent
    return None if folder == folder.parent else folder.with_name(f".{folder.name}.{file.name}")


class _Folder:
    """A folder as it was found at a path, which another folder at the same path is not.

    The folder is kept open if it can be opened. Otherwise its inode could be freed, and a file system may give
    the same number to the folder that takes its place.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None
        with contextlib.suppress(OSError):
            try:
                descriptor = os.open(path, _HELD | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:  # for example, too many files are open
                self._identity = _identity(path.stat())
                return
            weakref.finalize(self, os.close, descriptor)
            self._identity = _identity(os.fstat(descriptor))

    def is_in_place(self) -> bool:
        """Return whether the path still leads to the folder."""
        try:
            return _identity(self._path.stat()) == self._identity
        except OSError:
            return self._identity is None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _write(file: Path, text: str) -> None:
    """Write a file of one line to disk. A new file appears with its text, so no reader finds it empty.

    An existing entry that is not a regular file stays, and counts as the latch.

    Raises:
        OSError: if no entry exists and none can be created.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    draft = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
    with contextlib.suppress(OSError):  # the file exists, or the file system has no hard links
        descriptor = os.open(draft, flags | os.O_EXCL, 0o644)
        try:
            _fill(descriptor, text)
            os.link(draft, file)
            os.fsync(descriptor)
            return
        finally:
            os.close(descriptor)
            draft.unlink(missing_ok=True)
    try:
        descriptor = os.open(file, flags, 0o644)
    except OSError:
        if os.path.lexists(file):  # a link, a folder, a FIFO without a reader, or another user's file
            return
        raise
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            _fill(descriptor, text)
            with contextlib.suppress(OSError):
                os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fill(descriptor: int, text: str) -> None:
    """Write a text to an open file. On a full disk the file stays empty, which is the latch too."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, text.encode(errors="replace") + b"\n")

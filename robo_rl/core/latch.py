"""Files whose presence stops robots, and how they are read within a control period whatever has become of them."""

import contextlib
import os
import stat
from pathlib import Path

from .durable import sync_folder
from .errors import DriverError
from .options import require
from .text import printable

TEXT_BYTES = 512
"""How much of a file is read: reasons are short, and what lies there may be huge or endless."""

_latched: dict[Path, str] = {}
"""Reasons of the stops of this process whose file could not be made, by that file."""


def plain_text(text: str, limit: int = TEXT_BYTES) -> str:
    """Return ``text`` on one line of at most ``limit`` characters, without what a terminal obeys."""
    return " ".join(printable(text[: 4 * limit]).split())[:limit]


def read_short(file: Path, size: int = TEXT_BYTES) -> str | None:
    """Return the first ``size`` bytes of a regular file; None where it is anything else, or cannot be read.

    Nothing is waited for: a FIFO without a writer, a device, a folder and a symbolic link count as anything else.
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
    """A stop that holds while a file is there, in every process that looks at the same file.

    A missing folder is not a missing file. Where the folder of the file was removed, renamed or replaced while a
    process watches it, nobody knows whether the stop was pressed, so it is pressed again, in a new folder. For
    processes that begin later a twin beside the folder tells that the latch was pressed and never taken back.

    Args:
        file: whose presence is the stop; a ``~`` at its beginning is the home folder.

    Raises:
        ConfigError: if it is a folder, which would always be there.
        DriverError: if the folder that it is in cannot be made.
    """

    def __init__(self, file: Path) -> None:
        # A shell expands file=~/stop for `robo-rl stop`, and not safety.emergency_stop.file=~/stop for a run.
        self.file = file.expanduser()
        self._twin = _twin_of(self.file)
        require(not self.file.is_dir(), "safety.emergency_stop.file", "a file, not a folder", str(self.file))
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DriverError(
                f"the folder of the emergency stop, {self.file.parent}, cannot be made ({error.strerror}): "
                "give another file: safety.emergency_stop.file, or file=PATH for stop, rearm and enable"
            ) from error
        self._folder = _identity(self.file.parent)
        if self._twin is not None and os.path.lexists(self._twin) and not os.path.lexists(self.file):
            told = plain_text(read_short(self._twin) or "") or "emergency stop"
            self.press(f"{told}; its file {self.file} was removed, but nobody re-armed")

    def press(self, reason: str) -> bool:
        """Stop who looks at this file; return whether it was possible.

        Where the file cannot be made, False: this process alone stays stopped. On return the file is on the disk.
        """
        _latched[self.file] = reason
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._folder = _identity(self.file.parent)
            _write(self.file, reason)
            _latched.pop(self.file, None)  # the file is the latch now
            sync_folder(self.file.parent)
        if self._twin is not None:
            with contextlib.suppress(OSError):
                _write(self._twin, reason)
        return self.file not in _latched

    def pressed(self) -> str | None:
        """Return why robots are stopped, None if they are not. Takes microseconds."""
        if self.file in _latched:
            return _latched[self.file]
        try:
            os.lstat(self.file)
        except FileNotFoundError:
            if _identity(self.file.parent) == self._folder:
                return None
            self.press(
                f"the folder of the emergency stop, {self.file.parent}, was removed or replaced, so nobody knows "
                "whether it was pressed"
            )
        except OSError as error:
            return f"{self.file} cannot be looked at ({error.strerror})"
        else:
            self._folder = _identity(self.file.parent)
        return _latched.get(self.file) or plain_text(read_short(self.file) or "") or "emergency stop"

    def rearm(self) -> bool:
        """Allow motion again; return whether it was stopped. For a person alone to call.

        Raises:
            DriverError: if what is there cannot be removed.
        """
        was = self.pressed() is not None
        try:
            if self._twin is not None:
                self._twin.unlink(missing_ok=True)
            self.file.unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(
                f"{error.filename} cannot be removed ({error.strerror}): robots stay stopped until it is; remove it by "
                "hand"
            ) from error
        _latched.pop(self.file, None)
        return was


def _twin_of(file: Path) -> Path | None:
    """Return the file that tells, where the folder of ``file`` is gone, that it was pressed; None in a root folder."""
    folder = file.absolute().parent
    return None if folder == folder.parent else folder.with_name(f".{folder.name}.{file.name}")


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return what tells a folder from any other that takes its name."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _write(file: Path, text: str) -> None:
    """Make a file of one line, on the disk. What is there and no regular file stays as it is, and is there.

    Raises:
        OSError: if nothing is there and nothing can be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(file, flags, 0o644)
    except OSError:
        if os.path.lexists(file):  # a link, a folder, a FIFO that nobody reads, a file of somebody else
            return
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return
        with contextlib.suppress(OSError):  # a full disk: the empty file is the latch too
            os.ftruncate(descriptor, 0)
            os.write(descriptor, text.encode(errors="replace") + b"\n")
            os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The emergency stop and the deadman switch.

The emergency stop is a file: while it is there, no robot moves. So it reaches every process of this user at once, stays
latched when processes end or the machine restarts, and only a person takes it away (``robo-rl rearm``).

It is here because what a person presses must act at once: ``robo-rl stop`` loads nothing but this package.
"""

import contextlib
import os
from pathlib import Path

from .clock import Clock, MonotonicClock
from .config import require
from .durable import sync_folder
from .errors import DEADMAN, EMERGENCY_STOP, DriverError
from .folders import user_folder


def default_file() -> Path:
    """Return where the emergency stop of this user is.

    Raises:
        ConfigError: if this user has no home folder, and XDG_STATE_HOME is not set.
    """
    otherwise = ", the same for every process of this user, or safety.emergency_stop.file"
    return user_folder("state", "the emergency stop", otherwise) / "emergency_stop"


BOOT = Path("/proc/sys/kernel/random/boot_id")
"""Names one run of the machine, from its start to the next; not every system has it."""

_latched: dict[Path, str] = {}
"""Reasons of the stops of this process whose file could not be made, by that file."""


class EmergencyStop:
    """Latched: once pressed it holds until :meth:`rearm`, in every process that uses the same file.

    Args:
        file: whose presence is the stop; a ``~`` at its beginning is the home folder.

    Raises:
        ConfigError: if it is a folder, which would always be there, or has no default (:func:`default_file`).
        DriverError: if the folder that it is in cannot be made.
    """

    def __init__(self, file: Path | None = None) -> None:
        # A shell expands file=~/stop for `robo-rl stop`, and not safety.emergency_stop.file=~/stop for a run.
        self.file = default_file() if file is None else file.expanduser()
        require(not self.file.is_dir(), "safety.emergency_stop.file", "a file, not a folder", str(self.file))
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DriverError(
                f"the folder of the emergency stop, {self.file.parent}, cannot be made ({error.strerror}): "
                "give another file: safety.emergency_stop.file, or file=PATH for stop, rearm and enable"
            ) from error

    def press(self, reason: str) -> bool:
        """Stop every robot; return whether it was possible.

        Where the file cannot be made, False: this process alone stays stopped. On return the file is on the disk.
        """
        _latched[self.file] = reason
        with contextlib.suppress(OSError):
            self.file.touch()
            _latched.pop(self.file, None)  # the file is the latch now
            with self.file.open("w") as stream:
                stream.write(reason + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            sync_folder(self.file.parent)
        return self.file not in _latched

    def pressed(self) -> str | None:
        """Return why robots are stopped, None if they are not. Takes microseconds."""
        if self.file in _latched:
            return _latched[self.file]
        try:
            self.file.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"{self.file} cannot be looked at ({error.strerror})"
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return self.file.read_text().strip() or "emergency stop"
        return "emergency stop"

    def rearm(self) -> bool:
        """Allow motion again; return whether it was stopped. For a person alone to call."""
        was = self.pressed() is not None
        self.file.unlink(missing_ok=True)
        _latched.pop(self.file, None)
        return was


class DeadmanSwitch:
    """Robots move only while a person holds a key: ``robo-rl enable`` refreshes a time in a file.

    The time is the machine's monotonic clock, which all its processes share. It begins anew when the machine restarts,
    so beside it is which run of the machine it was (:data:`BOOT`), as far as the system says.

    Args:
        file: that holds the time.
        timeout: after which the key counts as let go [s].
        clock: monotonic time.
    """

    def __init__(self, file: Path, timeout: float, clock: Clock | None = None) -> None:
        self._file = file
        self._timeout_ns = round(timeout * 1e9)
        self._clock = clock or MonotonicClock()
        self._boot = ""
        with contextlib.suppress(OSError):
            self._boot = BOOT.read_text().strip()

    def held(self) -> bool:
        """Return whether the person holds the key."""
        try:
            text, _, boot = self._file.read_text().partition(" ")
            held_ns = int(text)
        except (OSError, ValueError):
            return False
        return boot == self._boot and 0 <= self._clock.now_ns() - held_ns <= self._timeout_ns

    def refresh(self) -> None:
        """Take note that the key is held."""
        partial = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        partial.write_text(f"{self._clock.now_ns()} {self._boot}")
        partial.replace(self._file)

    def release(self) -> None:
        """Take note that the key was let go."""
        self._file.unlink(missing_ok=True)


def deadman_file(emergency_file: Path) -> Path:
    """Return the file of the deadman switch that belongs to an emergency stop."""
    return emergency_file.with_name("deadman")


class StopButton:
    """What a person may stop a robot with: the emergency stop and, if wanted, the deadman switch.

    Args:
        emergency: the emergency stop.
        deadman: the deadman switch; None: not wanted.
    """

    def __init__(self, emergency: EmergencyStop, deadman: DeadmanSwitch | None = None) -> None:
        self._emergency = emergency
        self._deadman = deadman

    def reason(self) -> tuple[str, str] | None:
        """Return the name and the text of why the robot must not move now, or None."""
        pressed = self._emergency.pressed()
        if pressed is not None:
            return EMERGENCY_STOP, f"emergency stop ({pressed}); when all is safe: robo-rl rearm"
        if self._deadman is not None and not self._deadman.held():
            return DEADMAN, "the deadman switch is not held; hold it: robo-rl enable"
        return None

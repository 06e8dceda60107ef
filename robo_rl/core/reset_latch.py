"""The latch of a reset in progress: it outlives the process that called the reset, so that two never overlap."""

import contextlib
import json
import os
from pathlib import Path
from urllib.parse import quote

from .durable import sync_folder, write_durably
from .emergency import default_file
from .errors import DataError, DriverError
from .foreign import parse_json
from .latch import read_short


class ResetLatch:
    """A file that exists from before a robot's reset is called until the reset has answered.

    While it exists, no other reset is called, as the previous one may still be moving the robot. A process that was
    killed leaves it behind, and so does a reset that never answers. Then a person checks the robot and releases it with
    ``robo-rl rearm``.

    Raises:
        ConfigError: if this user has no home folder, and XDG_STATE_HOME is not set.
        DriverError: if the folder cannot be created.
    """

    def __init__(self, robot: str) -> None:
        self.file = default_file().with_name(f"reset.{quote(robot, safe='')}")
        self._robot = robot

    def take(self) -> str | None:
        """Take the latch; return None, or the reason why it is held.

        Raises:
            DriverError: if the file cannot be created: without it, nothing would prevent a second reset.
        """
        facts = {"pid": os.getpid(), "started": _started(os.getpid())}
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                os.write(descriptor, json.dumps(facts).encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            sync_folder(self.file.parent)
        except FileExistsError:
            return self.describe()
        except OSError as error:
            raise DriverError(
                f"{self.file} cannot be created ({error.strerror}): it prevents a second reset while one is in "
                "progress; free disk space, or set XDG_STATE_HOME"
            ) from error
        return None

    def describe(self) -> str:
        """Return a description of the latch for messages when it is held."""
        reset = f"a reset of robot {self._robot!r} that process {self._facts().get('pid', 'unknown')} called"
        if self.is_under_way():
            return f"{reset} is under way"
        return (
            f"{reset} has not answered: it may still be running. Look at the robot, then robo-rl rearm "
            f"robot={self._robot}"
        )

    def give_up(self) -> None:
        """Record that the caller no longer waits for the answer, so that only a person may release the latch."""
        with contextlib.suppress(OSError):
            write_durably(self.file, json.dumps({"pid": os.getpid()}).encode())

    def is_held(self) -> bool:
        """Return whether a reset is in progress, or was when its process ended."""
        return os.path.lexists(self.file)

    def is_under_way(self) -> bool:
        """Return whether the process that called the reset still waits for the answer."""
        facts = self._facts()
        started = facts.get("started")
        return isinstance(started, str) and _started(facts.get("pid")) == started

    def release(self) -> None:
        """Remove the latch: the reset has answered, or a person has checked the robot."""
        self.file.unlink(missing_ok=True)

    def _facts(self) -> dict[str, object]:
        with contextlib.suppress(DataError):
            facts = parse_json(read_short(self.file) or "", str(self.file))
            if isinstance(facts, dict):
                return facts
        return {}


def _started(process: object) -> str | None:
    """Return the start time of a process, in ticks since the machine started; None if there is no such process."""
    text = read_short(Path(f"/proc/{process}/stat")) if isinstance(process, int) else None
    return None if text is None else text.rpartition(")")[2].split()[19]

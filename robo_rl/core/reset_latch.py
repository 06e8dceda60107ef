"""The latch of a reset that is under way: it outlives the process that called it, so that never two run at once."""

import contextlib
import json
import os
from pathlib import Path
from urllib.parse import quote

from .durable import sync_folder, write_durably
from .emergency import default_file
from .errors import DriverError
from .latch import read_short


class ResetLatch:
    """There from before a robot's reset is called until it has answered.

    Whoever finds it there calls no reset: the one before may still be moving the robot. A process that was killed
    leaves it behind, and so does a reset that never answers. Then a person looks at the robot and takes it back:
    ``robo-rl rearm``.

    Args:
        robot: name of the robot.

    Raises:
        ConfigError: if this user has no home folder, and XDG_STATE_HOME is not set.
        DriverError: if the folder cannot be made.
    """

    def __init__(self, robot: str) -> None:
        self.file = default_file().with_name(f"reset.{quote(robot, safe='')}")
        self._robot = robot

    def take(self) -> str | None:
        """Take the latch; return None, or why that is not possible.

        Raises:
            DriverError: if the file cannot be made: without it nothing would keep a second reset from being called.
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
                f"{self.file} cannot be made ({error.strerror}): it keeps a second reset from being called while one "
                "is under way; make room, or set XDG_STATE_HOME"
            ) from error
        return None

    def describe(self) -> str:
        """Return what the latch means to whoever finds it held."""
        told = f"a reset of robot {self._robot!r} that process {self._facts().get('pid', 'unknown')} called"
        if self.is_under_way():
            return f"{told} is under way"
        return (
            f"{told} has not answered: it may still be running. Look at the robot, then robo-rl rearm "
            f"robot={self._robot}"
        )

    def give_up(self) -> None:
        """Take note that the answer is waited for no longer: only a person may take the latch back now."""
        with contextlib.suppress(OSError):
            write_durably(self.file, json.dumps({"pid": os.getpid()}).encode())

    def is_held(self) -> bool:
        """Return whether a reset is under way, or was when its process ended."""
        return os.path.lexists(self.file)

    def is_under_way(self) -> bool:
        """Return whether the process that called the reset still waits for the answer."""
        facts = self._facts()
        started = facts.get("started")
        return isinstance(started, str) and _started(facts.get("pid")) == started

    def release(self) -> None:
        """Take note that the reset has answered, or that a person has looked at the robot."""
        self.file.unlink(missing_ok=True)

    def _facts(self) -> dict[str, object]:
        with contextlib.suppress(ValueError):
            facts = json.loads(read_short(self.file) or "")
            if isinstance(facts, dict):
                return facts
        return {}


def _started(process: object) -> str | None:
    """Return when a process was started, in ticks since the machine was; None where there is no such process."""
    text = read_short(Path(f"/proc/{process}/stat")) if isinstance(process, int) else None
    return None if text is None else text.rpartition(")")[2].split()[19]

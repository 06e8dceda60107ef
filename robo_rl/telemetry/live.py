"""What passes between a run and people who watch it from other processes: files in the folder ``live`` of the run.

Who may write to the run's folder may command the run; nobody else can. The folder is there while the run goes on.
"""

import contextlib
import fcntl
import itertools
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from robo_rl.core import Clock, Closing, ConfigError, DataError, MonotonicClock

FOLDER = "live"
WATCH_SECONDS = 3.0
"""Somebody who watches says so again within this time."""
STATUS_SECONDS = 0.5
LOCK_SECONDS = 1.0
"""Longest wait for somebody who only looks whether the run goes on."""

COMMANDS = {
    "pause": "no new episode begins",
    "resume": "episodes begin again",
    "checkpoint": "write a checkpoint now",
    "stop": "evaluate and end the run",
    "reset": "end the episode of a robot; the next begins",
    "success": "end the episode of a robot as a success",
    "failure": "end the episode of a robot as none",
}
EPISODE_COMMANDS = ("reset", "success", "failure")
"""Those about the episode of one robot."""


class Command(NamedTuple):
    """One of :data:`COMMANDS`; those of :data:`EPISODE_COMMANDS` name the robot."""

    name: str
    robot: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.robot}".strip()


@dataclass(frozen=True)
class LiveRobot:
    """What a run tells of a robot or simulator: whether it is connected, and facts by name."""

    name: str
    connected: bool
    facts: Mapping[str, str]
    picture_problem: str = ""


@dataclass(frozen=True)
class LiveStatus:
    """What a run tells of itself.

    Attributes:
        state: what it does, in a word or two: ``training``, ``paused``, ``evaluating``.
        paused: whether a person wants no episode to begin.
        refused: commands that it does not take, and why.
        robots: those that act.
    """

    state: str
    paused: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)
    robots: tuple[LiveRobot, ...] = ()


class LiveRun(Closing):
    """The run's side. Nothing here waits for those who watch, and a full disk does not end the run.

    Args:
        run: folder of the run.
        clock: the machine's monotonic clock, which all its processes share.

    Raises:
        ConfigError: if another process is busy with this run.
    """

    def __init__(self, run: Path, clock: Clock | None = None) -> None:
        self._clock = clock or MonotonicClock()
        self._folder = run / FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self._folder / "lock").open("w")
        deadline = time.monotonic() + LOCK_SECONDS
        while not _lock(self._lock.fileno(), fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                self._lock.close()
                raise ConfigError(f"another process is busy with the run in {run}: wait for its end, or end it")
            time.sleep(0.02)
        for name in ("commands", "pictures"):  # of an earlier process
            shutil.rmtree(self._folder / name, ignore_errors=True)
            (self._folder / name).mkdir()
        self._told: LiveStatus | None = None
        self._told_ns = 0

    @property
    def watched(self) -> bool:
        """Whether somebody watches, so that pictures are of use."""
        try:
            seen_ns = int((self._folder / "watched").read_text())
        except (OSError, ValueError):
            return False
        return 0 <= self._clock.now_ns() - seen_ns <= WATCH_SECONDS * 1e9

    def tell(self, status: LiveStatus) -> None:
        """Tell what the run does: at once where its state is another, else twice a second."""
        now = self._clock.now_ns()
        if self._told is not None and self._told.state == status.state and now - self._told_ns < STATUS_SECONDS * 1e9:
            return
        self._told, self._told_ns = status, now
        _replace(self._folder / "status.json", json.dumps(asdict(status)).encode())

    def show(self, robot: str, pictures: Mapping[str, bytes]) -> None:
        """Show JPEG pictures of a robot, by camera."""
        for camera, picture in pictures.items():
            name = "@".join(quote(part, safe="") for part in (robot, camera))
            _replace(self._folder / "pictures" / f"{name}.jpg", picture)

    def take_commands(self) -> list[Command]:
        """Return what people asked for since the last call, in order."""
        commands = []
        for file in sorted((self._folder / "commands").glob("*.json")):
            with contextlib.suppress(OSError, ValueError, TypeError):
                command = Command(**json.loads(file.read_text()))
                if command.name in COMMANDS:
                    commands.append(command)
            with contextlib.suppress(OSError):
                file.unlink()
        return commands

    def close(self) -> None:
        """Leave nothing behind but the lock's file. May be called twice."""
        if self._lock.closed:
            return
        for name in ("commands", "pictures"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
        for name in ("status.json", "watched"):
            (self._folder / name).unlink(missing_ok=True)
        self._lock.close()


class LiveWatch:
    """The side of those who watch.

    Args:
        run: folder of the run.
        clock: the machine's monotonic clock.
    """

    def __init__(self, run: Path, clock: Clock | None = None) -> None:
        self._clock = clock or MonotonicClock()
        self._folder = run / FOLDER
        self._numbers = itertools.count()

    def is_going_on(self) -> bool:
        """Whether a process is busy with the run. A process that was killed is not."""
        try:
            with (self._folder / "lock").open() as lock:
                return not _lock(lock.fileno(), fcntl.LOCK_SH)
        except FileNotFoundError:
            return False

    def watch(self) -> None:
        """Say that somebody watches; nothing where the run does not go on."""
        if self._folder.is_dir():
            _replace(self._folder / "watched", str(self._clock.now_ns()).encode())

    def status(self) -> LiveStatus | None:
        """Return what the run last told, if it did."""
        try:
            told = json.loads((self._folder / "status.json").read_text())
            robots = tuple(LiveRobot(**robot) for robot in told["robots"])
            return LiveStatus(told["state"], told["paused"], told["refused"], robots)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def pictures(self) -> dict[tuple[str, str], tuple[Path, int]]:
        """Return the file of the newest picture by robot and camera, and a number that changes with the picture."""
        found = {}
        for path in (self._folder / "pictures").glob("*.jpg"):
            robot, _, camera = path.stem.partition("@")
            with contextlib.suppress(FileNotFoundError):
                found[unquote(robot), unquote(camera)] = (path, path.stat().st_mtime_ns)
        return found

    def waiting(self) -> list[str]:
        """Return the commands that the run has not taken yet, in order."""
        found = []
        for path in sorted((self._folder / "commands").glob("*.json")):
            with contextlib.suppress(OSError, ValueError, TypeError):
                found.append(str(Command(**json.loads(path.read_text()))))
        return found

    def send(self, command: Command) -> None:
        """Ask the run for something; it acts when it comes to it.

        Raises:
            DataError: if the run does not go on, does not take this command, or there is no such command.
        """
        status = self.status()
        if not self.is_going_on() or status is None:
            raise DataError("the run is not going on: nobody takes commands")
        if command.name not in COMMANDS:
            raise DataError(f"there is no command {command.name!r}: {', '.join(COMMANDS)}")
        if why := status.refused.get(command.name):
            raise DataError(f"{command.name}: {why}")
        name = f"{self._clock.now_ns():020}-{os.getpid()}-{next(self._numbers)}"
        if not _replace(self._folder / "commands" / f"{name}.json", json.dumps(command._asdict()).encode()):
            raise DataError(f"{command.name} could not be written to {self._folder}")


def _lock(descriptor: int, kind: int) -> bool:
    """Lock a file, without waiting; return whether that was possible."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _replace(path: Path, data: bytes) -> bool:
    """Replace a file at once for all who read it; return whether that was possible."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
        return False
    return True

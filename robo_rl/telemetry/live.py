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
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from robo_rl.core import Clock, Closing, ConfigError, DataError, ForeignFolder, MonotonicClock, read_bytes

FOLDER = "live"
WATCH_SECONDS = 3.0
"""Somebody who watches says so again within this time."""
STATUS_SECONDS = 0.5
LOCK_SECONDS = 1.0
"""Longest wait for somebody who only looks whether the run goes on."""

MOST_COMMANDS = 100
MOST_PICTURES = 32
PICTURE_BYTES = 2 << 20
"""What is looked at of a folder that somebody else may have filled: the first commands, pictures, and their size."""

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
        self._run = ForeignFolder(run)
        self._folder = run / FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._lock = os.fdopen(os.open(self._folder / "lock", flags, 0o666), "w")
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
            seen_ns = int(read_bytes(self._folder / "watched", 64))
        except (OSError, ValueError, DataError):
            return False
        return 0 <= self._clock.now_ns() - seen_ns <= WATCH_SECONDS * 1e9

    def tell(self, status: LiveStatus) -> None:
        """Tell what the run does: at once where its state is another, else twice a second."""
        now = self._clock.now_ns()
        if self._told is not None and self._told.state == status.state and now - self._told_ns < STATUS_SECONDS * 1e9:
            return
        self._told, self._told_ns = status, now
        self._write("status.json", json.dumps(asdict(status)).encode())

    def show(self, robot: str, pictures: Mapping[str, bytes]) -> None:
        """Show JPEG pictures of a robot, by camera."""
        for camera, picture in pictures.items():
            name = "@".join(quote(part, safe="") for part in (robot, camera))
            self._write(f"pictures/{name}.jpg", picture)

    def _write(self, name: str, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._run.replace(f"{FOLDER}/{name}", data)

    def take_commands(self) -> list[Command]:
        """Return what people asked for since the last call, in order."""
        commands = []
        for file, command in _commands(self._run):
            if command is not None and command.name in COMMANDS:
                commands.append(command)
            with contextlib.suppress(OSError):
                (self._folder / "commands" / file).unlink()
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
    """The side of those who watch. The folder may be anybody's: what is read is bounded, and no link in it is followed.

    Args:
        run: folder of the run.
        clock: the machine's monotonic clock.
    """

    def __init__(self, run: Path, clock: Clock | None = None) -> None:
        self._clock = clock or MonotonicClock()
        self._run = ForeignFolder(run)
        self._numbers = itertools.count()

    def is_going_on(self) -> bool:
        """Whether a process is busy with the run. A process that was killed is not."""
        try:
            with self._run.open(f"{FOLDER}/lock") as lock:
                return not _lock(lock, fcntl.LOCK_SH)
        except (OSError, DataError):  # where there is no file to lock, no run has locked it
            return False

    def watch(self) -> None:
        """Say that somebody watches; nothing where the run does not go on."""
        with contextlib.suppress(OSError):
            self._run.replace(f"{FOLDER}/watched", str(self._clock.now_ns()).encode())

    def status(self) -> LiveStatus | None:
        """Return what the run last told, if it did."""
        try:
            return _status(self._run.read_json(f"{FOLDER}/status.json"))
        except (OSError, DataError, KeyError, TypeError):
            return None

    def pictures(self) -> dict[tuple[str, str], tuple[Path, int]]:
        """Return the file of the newest picture by robot and camera, and a number that changes with the picture."""
        found = {}
        for name, file in self._run.files(f"{FOLDER}/pictures", ".jpg", MOST_PICTURES).items():
            robot, _, camera = name.removesuffix(".jpg").partition("@")
            path = self._run.path / FOLDER / "pictures" / name
            found[unquote(robot), unquote(camera)] = (path, file.st_mtime_ns)
        return found

    def read_picture(self, file: Path) -> bytes | None:
        """Return what is in one of the files of :meth:`pictures`; None where it is gone, or not what a run writes."""
        try:
            return self._run.read_bytes(f"{FOLDER}/pictures/{file.name}", PICTURE_BYTES)
        except (OSError, DataError):
            return None

    def waiting(self) -> list[str]:
        """Return the commands that the run has not taken yet, in order."""
        return [str(command) for _, command in _commands(self._run) if command is not None]

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
        try:
            self._run.replace(f"{FOLDER}/commands/{name}.json", json.dumps(command._asdict()).encode())
        except OSError as error:
            raise DataError(f"{command.name} could not be written to {self._run.path / FOLDER}") from error


def _commands(run: ForeignFolder) -> Iterator[tuple[str, Command | None]]:
    """Yield the files of commands in order, and the command in each; None: it holds none."""
    for name in run.files(f"{FOLDER}/commands", ".json", MOST_COMMANDS):
        command = None
        with contextlib.suppress(OSError, DataError, TypeError):
            told = run.read_json(f"{FOLDER}/commands/{name}", 4096)
            if isinstance(told, dict) and all(isinstance(value, str) for value in told.values()):
                command = Command(**told)
        yield name, command


def _status(told: Any) -> LiveStatus:
    """Return what a status file says.

    Raises:
        KeyError: if something is missing.
        TypeError: if something is of another type.
    """
    robots = [LiveRobot(**robot) for robot in _checked(told["robots"], list)]
    for robot in robots:
        _checked(robot.name, str)
        _checked(robot.connected, bool)
        _checked(robot.picture_problem, str)
        _texts(robot.facts)
    refused = _texts(told["refused"])
    return LiveStatus(_checked(told["state"], str), _checked(told["paused"], bool), refused, tuple(robots))


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}")
    return value


def _texts(value: Any) -> dict[str, str]:
    return {name: _checked(text, str) for name, text in _checked(value, dict).items()}


def _lock(descriptor: int, kind: int) -> bool:
    """Lock a file, without waiting; return whether that was possible."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""Live status and commands between a run and other processes: files in the folder ``live`` of the run folder.

Only users with write access to the run folder can command the run. All files except the lock exist only while the run
is active.
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
"""Time within which a process that watches has to renew its mark [s]."""
STATUS_SECONDS = 0.5
LOCK_SECONDS = 1.0
"""Longest wait for a process that holds the lock only to check whether the run is active [s]."""

MOST_COMMANDS = 100
MOST_PICTURES = 32
PICTURE_BYTES = 2 << 20
"""Limits on what is read of a folder that another user may have filled: commands, pictures, and bytes per picture."""
MOST_SCENES = 8
SCENE_BYTES = 1 << 20
"""The same limits of scenes, and of bytes per geometry or frame."""
GEOMETRY, FRAME = "geometry", "frame"
"""The parts of a scene: shapes, and their newest poses."""

_FOLDERS = ("commands", "pictures", "scenes")

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
"""The commands about the episode of one robot."""


class Command(NamedTuple):
    """One of :data:`COMMANDS`, with the name of the robot for those of :data:`EPISODE_COMMANDS`."""

    name: str
    robot: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.robot}".strip()


@dataclass(frozen=True)
class LiveRobot:
    """The live status of a robot or simulator: whether it is connected, and facts by name."""

    name: str
    connected: bool
    facts: Mapping[str, str]
    picture_problem: str = ""


@dataclass(frozen=True)
class LiveStatus:
    """The live status of a run.

    Attributes:
        state: current activity in one or two words: ``training``, ``paused``, ``evaluating``, ``paused and
            stopped``.
        paused: whether the operator wants no episode to begin.
        refused: commands that the run does not accept, with the reasons.
        robots: robots and simulators that act.
    """

    state: str
    paused: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)
    robots: tuple[LiveRobot, ...] = ()


class LiveRun(Closing):
    """The side of the run. It never waits for processes that watch, and a full disk does not end the run.

    Args:
        run: run folder.
        clock: monotonic clock of the machine, shared by all its processes.

    Raises:
        ConfigError: if another process is using this run.
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
        for name in _FOLDERS:  # left by an earlier process
            shutil.rmtree(self._folder / name, ignore_errors=True)
            (self._folder / name).mkdir()
        self._reported: LiveStatus | None = None
        self._reported_ns = 0

    @property
    def watched(self) -> bool:
        """Whether a process watches, so that pictures are needed."""
        try:
            seen_ns = int(read_bytes(self._folder / "watched", 64))
        except (OSError, ValueError, DataError):
            return False
        return 0 <= self._clock.now_ns() - seen_ns <= WATCH_SECONDS * 1e9

    def report(self, status: LiveStatus) -> None:
        """Write the status of the run: at once if its state has changed, otherwise twice a second."""
        now = self._clock.now_ns()
        if (
            self._reported is not None
            and self._reported.state == status.state
            and now - self._reported_ns < STATUS_SECONDS * 1e9
        ):
            return
        self._reported, self._reported_ns = status, now
        self._write("status.json", json.dumps(asdict(status)).encode())

    def show(self, robot: str, pictures: Mapping[str, bytes]) -> None:
        """Write JPEG pictures of a robot, by camera."""
        for camera, picture in pictures.items():
            self._write(f"pictures/{_file_name(robot, camera)}.jpg", picture)

    def show_scene(self, robot: str, geometry: bytes, frame: bytes) -> None:
        """Write the geometry and the newest frame of a robot's scene as JSON texts; an empty one is left out."""
        for part, text in ((GEOMETRY, geometry), (FRAME, frame)):
            if text:
                self._write(f"scenes/{_file_name(robot, part)}.json", text)

    def _write(self, name: str, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._run.replace(f"{FOLDER}/{name}", data)

    def take_commands(self) -> list[Command]:
        """Return the commands since the last call, in order."""
        commands = []
        for file, command in _commands(self._run):
            if command is not None and command.name in COMMANDS:
                commands.append(command)
            with contextlib.suppress(OSError):
                (self._folder / "commands" / file).unlink()
        return commands

    def close(self) -> None:
        """Remove all files except the lock. May be called twice."""
        if self._lock.closed:
            return
        for name in _FOLDERS:
            shutil.rmtree(self._folder / name, ignore_errors=True)
        for name in ("status.json", "watched"):
            (self._folder / name).unlink(missing_ok=True)
        self._lock.close()


class LiveWatch:
    """The side of a process that watches. The folder may belong to any user: reads are bounded and follow no links.

    Args:
        run: run folder.
        clock: monotonic clock of the machine.
    """

    def __init__(self, run: Path, clock: Clock | None = None) -> None:
        self._clock = clock or MonotonicClock()
        self._run = ForeignFolder(run)
        self._numbers = itertools.count()

    def is_going_on(self) -> bool:
        """Return whether a process is using the run; a killed process does not count."""
        try:
            with self._run.open(f"{FOLDER}/lock") as lock:
                return not _lock(lock, fcntl.LOCK_SH)
        except (OSError, DataError):  # without a lock file, no process has locked it
            return False

    def watch(self) -> None:
        """Mark the run as watched. If the run is not active, do nothing."""
        with contextlib.suppress(OSError):
            self._run.replace(f"{FOLDER}/watched", str(self._clock.now_ns()).encode())

    def status(self) -> LiveStatus | None:
        """Return the last status of the run, or None if it is missing or invalid."""
        try:
            return _status(self._run.read_json(f"{FOLDER}/status.json"))
        except (OSError, DataError, KeyError, TypeError):
            return None

    def pictures(self) -> dict[tuple[str, str], tuple[Path, int]]:
        """Return, by robot and camera, the file of the newest picture and a number that changes with the picture."""
        return self._stamped_files("pictures", ".jpg", MOST_PICTURES)

    def scenes(self) -> dict[tuple[str, str], tuple[Path, int]]:
        """Return, by robot and part of its scene, the file and a number that changes with it."""
        return self._stamped_files("scenes", ".json", 2 * MOST_SCENES)

    def _stamped_files(self, folder: str, suffix: str, most: int) -> dict[tuple[str, str], tuple[Path, int]]:
        files = {}
        for name, file in self._run.files(f"{FOLDER}/{folder}", suffix, most).items():
            robot, _, what = name.removesuffix(suffix).partition("@")
            files[unquote(robot), unquote(what)] = (self._run.path / FOLDER / folder / name, file.st_mtime_ns)
        return files

    def read_picture(self, file: Path) -> bytes | None:
        """Return the contents of a file of :meth:`pictures`, or None if it is missing or invalid."""
        try:
            return self._run.read_bytes(f"{FOLDER}/pictures/{file.name}", PICTURE_BYTES)
        except (OSError, DataError):
            return None

    def read_scene(self, file: Path) -> Any:
        """Return the JSON value in a file of :meth:`scenes`, which may be anything, or None if the file is missing.

        Raises:
            DataError: if it is too large or not JSON.
        """
        try:
            return self._run.read_json(f"{FOLDER}/scenes/{file.name}", SCENE_BYTES)
        except OSError:
            return None

    def waiting(self) -> list[str]:
        """Return the commands that the run has not read yet, in order."""
        return [str(command) for _, command in _commands(self._run) if command is not None]

    def send(self, command: Command) -> None:
        """Send a command to the run, which executes it at the next opportunity.

        Raises:
            DataError: if the run is not active or does not accept the command, or there is no such command.
        """
        status = self.status()
        if not self.is_going_on() or status is None:
            raise DataError("the run is not running, so it takes no commands")
        if command.name not in COMMANDS:
            raise DataError(f"there is no command {command.name!r}: {', '.join(COMMANDS)}")
        if why := status.refused.get(command.name):
            raise DataError(f"{command.name}: {why}")
        name = f"{self._clock.now_ns():020}-{os.getpid()}-{next(self._numbers)}"
        try:
            self._run.replace(f"{FOLDER}/commands/{name}.json", json.dumps(command._asdict()).encode())
        except OSError as error:
            raise DataError(f"{command.name} could not be written to {self._run.path / FOLDER}") from error


def _file_name(robot: str, what: str) -> str:
    return "@".join(quote(part, safe="") for part in (robot, what))


def _commands(run: ForeignFolder) -> Iterator[tuple[str, Command | None]]:
    """Yield each command file in order with its command, or None if the file is invalid."""
    for name in run.files(f"{FOLDER}/commands", ".json", MOST_COMMANDS):
        command = None
        with contextlib.suppress(OSError, DataError, TypeError):
            content = run.read_json(f"{FOLDER}/commands/{name}", 4096)
            if isinstance(content, dict) and all(isinstance(value, str) for value in content.values()):
                command = Command(**content)
        yield name, command


def _status(content: Any) -> LiveStatus:
    """Return the status in the content of a status file.

    Raises:
        KeyError: if a field is missing.
        TypeError: if a field has the wrong type.
    """
    robots = [LiveRobot(**robot) for robot in _checked(content["robots"], list)]
    for robot in robots:
        _checked(robot.name, str)
        _checked(robot.connected, bool)
        _checked(robot.picture_problem, str)
        _texts(robot.facts)
    refused = _texts(content["refused"])
    return LiveStatus(_checked(content["state"], str), _checked(content["paused"], bool), refused, tuple(robots))


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}")
    return value


def _texts(value: Any) -> dict[str, str]:
    return {name: _checked(text, str) for name, text in _checked(value, dict).items()}


def _lock(descriptor: int, kind: int) -> bool:
    """Lock a file without waiting; return whether it succeeded."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

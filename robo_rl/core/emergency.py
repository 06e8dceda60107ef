"""The emergency stop, the deadman switch, and other conditions that hold a robot still.

The emergency stop is a file: while it exists, no robot moves. It therefore reaches every process of this user at once,
stays latched when processes end or the machine restarts, and only a person removes it (``robo-rl rearm``). One file
stops all robots, and each robot has its own file beside it.

The code is in this package because a stop must act at once: ``robo-rl stop`` imports nothing but this package.
"""

from pathlib import Path
from urllib.parse import quote, unquote

from .clock import Clock
from .errors import DEADMAN, EMERGENCY_STOP, GUARD_SILENT, ConfigError
from .folders import user_folder
from .heartbeat import Heartbeat
from .latch import Latch

NAME = "emergency_stop"
GUARD_SECONDS = 1.0
"""Longest time between checks of a guard; after that it counts as hung, and its robot is stopped [s]."""


def default_file(robot: str | None = None) -> Path:
    """Return the path of this user's emergency stop for all robots, or for one.

    Raises:
        ConfigError: if this user has no home folder, and XDG_STATE_HOME is not set.
    """
    alternative = ", the same for every process of this user, or safety.emergency_stop.file"
    return file_of(user_folder("state", "the emergency stop", alternative) / NAME, robot)


def file_of(file: Path, robot: str | None) -> Path:
    """Return the file of one robot beside ``file``, the file of all robots; ``file`` itself if no robot is named."""
    return file if robot is None else file.with_name(f"{file.name}.{quote(robot, safe='')}")


def stopped_robots(file: Path) -> list[str]:
    """Return the names of the robots that have their own latch beside ``file``, sorted."""
    names = (path.name.removeprefix(f"{file.name}.") for path in file.parent.glob(f"{file.name}.*"))
    return sorted(map(unquote, names))


class EmergencyStop:
    """A latched stop: once pressed, it holds until :meth:`rearm` in every process that watches the same files.

    Args:
        file: the file whose existence is the stop; None for this user's file.
        robot: name of the robot. It is stopped by the file of all robots of this user and by its own, and
            :meth:`press` creates its own. None: only ``file`` counts.

    Attributes:
        file: the file that :meth:`press` creates.

    Raises:
        ConfigError: if ``file`` is a folder, or there is no default (:func:`default_file`).
        DriverError: if its folder cannot be created.
    """

    def __init__(self, file: Path | None = None, robot: str | None = None) -> None:
        own = Latch(default_file(robot) if file is None else file)
        self.file = own.file
        self._latches = [own]
        if robot is not None:
            try:
                shared = default_file()
            except ConfigError:  # no home folder: then `robo-rl stop` needs file=PATH as well
                return
            if shared != own.file:
                self._latches.append(Latch(shared))

    def press(self, reason: str) -> bool:
        """Stop the robot, or every robot; return whether the file could be written.

        If it could not, only this process stays stopped. On return, the file is on disk.
        """
        return self._latches[0].press(reason)

    def pressed(self) -> str | None:
        """Return the reason for which robots are stopped, or None. Takes microseconds."""
        for latch in self._latches:
            reason = latch.pressed()
            if reason is not None:
                return reason
        return None

    def rearm(self) -> bool:
        """Allow motion again; return whether it was stopped. Only a person may call this.

        Raises:
            DriverError: if a file cannot be removed.
        """
        rearmed = [latch.rearm() for latch in self._latches]
        return any(rearmed)


class DeadmanSwitch(Heartbeat):
    """A switch that lets robots move only while a person holds a key; ``robo-rl enable`` beats while it is held."""


class GuardBeat(Heartbeat):
    """The heartbeat of a guard: a robot with a guard moves only while its guard keeps looking.

    Args:
        robot: name of the robot.
        required: whether a guard must exist; otherwise a guard that has not begun, or has left properly, is ignored.
        clock: monotonic time.
    """

    def __init__(self, robot: str, required: bool = False, clock: Clock | None = None) -> None:
        self.file = default_file().with_name(f"guard.{quote(robot, safe='')}")
        self._robot, self._required = robot, required
        super().__init__(self.file, GUARD_SECONDS, clock)

    def problem(self) -> str | None:
        """Return why the guard that exists, or existed, does not look, or None."""
        age = self.age()
        if age is not None:
            late = f"the guard of robot {self._robot!r} has not looked for {age:.1f} s"
            return late if age > GUARD_SECONDS else None
        if self.is_damaged():
            return f"the heartbeat {self.file} of the guard of robot {self._robot!r} cannot be read"
        return None

    def missed(self) -> str | None:
        """Return the problem with the guard and what to do about it, or None."""
        if (problem := self.problem()) is not None:
            return f"{problem}: start it again, or, to move without one, robo-rl rearm robot={self._robot}"
        if self._required and self.age() is None:
            return f"no guard looks after robot {self._robot!r} yet"
        return None


def deadman_file(emergency_file: Path) -> Path:
    """Return the file of the deadman switch that belongs to an emergency stop."""
    return emergency_file.with_name("deadman")


class StopButton:
    """The conditions that hold a robot still: emergency stop and, optionally, deadman switch and guard.

    Args:
        emergency: the emergency stop; None if there is none, as in simulation.
        deadman: the deadman switch; None if it is not used.
        guard: the robot's guard; None if it cannot have one.
    """

    def __init__(
        self,
        emergency: EmergencyStop | None,
        deadman: DeadmanSwitch | None = None,
        guard: GuardBeat | None = None,
    ) -> None:
        self._emergency, self._deadman, self._guard = emergency, deadman, guard

    def reason(self, waits: bool = False) -> tuple[str, str] | None:
        """Return the name and the description of the reason why the robot must not move now, or None.

        ``waits``: whether nothing is about to move, so that the deadman switch need not be held.
        """
        pressed = None if self._emergency is None else self._emergency.pressed()
        if pressed is not None:
            return EMERGENCY_STOP, f"emergency stop ({pressed}); when all is safe: robo-rl rearm"
        if self._deadman is not None and not waits and not self._deadman.is_fresh():
            return DEADMAN, "the deadman switch is not held; hold it: robo-rl enable"
        missed = None if self._guard is None else self._guard.missed()
        return None if missed is None else (GUARD_SILENT, missed)

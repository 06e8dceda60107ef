"""The emergency stop, the deadman switch, and what else holds a robot still.

The emergency stop is a file: while it is there, no robot moves. So it reaches every process of this user at once, stays
latched when processes end or the machine restarts, and only a person takes it away (``robo-rl rearm``). One file stops
all robots, and each robot has one of its own beside it.

It is here because what a person presses must act at once: ``robo-rl stop`` loads nothing but this package.
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
"""A guard that has not looked for longer counts as hung, and its robot is stopped [s]."""


def default_file(robot: str | None = None) -> Path:
    """Return where the emergency stop of this user is: of all robots, or of one.

    Raises:
        ConfigError: if this user has no home folder, and XDG_STATE_HOME is not set.
    """
    otherwise = ", the same for every process of this user, or safety.emergency_stop.file"
    return file_of(user_folder("state", "the emergency stop", otherwise) / NAME, robot)


def file_of(file: Path, robot: str | None) -> Path:
    """Return the file of one robot beside ``file``, which is that of all; ``file`` where no robot is named."""
    return file if robot is None else file.with_name(f"{file.name}.{quote(robot, safe='')}")


def stopped_robots(file: Path) -> list[str]:
    """Return the robots that have a latch of their own beside ``file``, in order."""
    names = (path.name.removeprefix(f"{file.name}.") for path in file.parent.glob(f"{file.name}.*"))
    return sorted(map(unquote, names))


class EmergencyStop:
    """Latched: once pressed it holds until :meth:`rearm`, in every process that obeys the same files.

    Args:
        file: whose presence is the stop; None: the one of this user.
        robot: name of the robot that is driven. It obeys the stop of all robots of this user and its own, and what is
            pressed is its own. None: what obeys ``file`` alone.

    Attributes:
        file: that :meth:`press` makes.

    Raises:
        ConfigError: if ``file`` is a folder, or there is no default (:func:`default_file`).
        DriverError: if the folder that it is in cannot be made.
    """

    def __init__(self, file: Path | None = None, robot: str | None = None) -> None:
        own = Latch(default_file(robot) if file is None else file)
        self.file = own.file
        self._latches = [own]
        if robot is not None:
            try:
                everybody = default_file()
            except ConfigError:  # no home folder: then `robo-rl stop` needs file=PATH as well
                return
            if everybody != own.file:
                self._latches.append(Latch(everybody))

    def press(self, reason: str) -> bool:
        """Stop the robot, or every robot; return whether it was possible.

        Where the file cannot be made, False: this process alone stays stopped. On return the file is on the disk.
        """
        return self._latches[0].press(reason)

    def pressed(self) -> str | None:
        """Return why nothing moves, None if it may. Takes microseconds."""
        for latch in self._latches:
            reason = latch.pressed()
            if reason is not None:
                return reason
        return None

    def rearm(self) -> bool:
        """Allow motion again; return whether it was stopped. For a person alone to call.

        Raises:
            DriverError: if a file cannot be removed.
        """
        rearmed = [latch.rearm() for latch in self._latches]
        return any(rearmed)


class DeadmanSwitch(Heartbeat):
    """Robots move only while a person holds a key: ``robo-rl enable`` beats while it is held."""


class GuardBeat(Heartbeat):
    """A robot that has a guard moves only while that looks.

    Args:
        robot: name of the robot.
        required: whether there has to be a guard: else one that has not begun, or has left in good order, is none.
        clock: monotonic time.
    """

    def __init__(self, robot: str, required: bool = False, clock: Clock | None = None) -> None:
        self.file = default_file().with_name(f"guard.{quote(robot, safe='')}")
        self._robot, self._required = robot, required
        super().__init__(self.file, GUARD_SECONDS, clock)

    def missed(self) -> str | None:
        """Return what is wrong with the guard; None: nothing is."""
        age = self.age()
        if age is None:
            return f"no guard looks after robot {self._robot!r} yet" if self._required else None
        if age <= GUARD_SECONDS:
            return None
        return (
            f"the guard of robot {self._robot!r} has not looked for {age:.1f} s: start it again, or, to move without "
            f"one, robo-rl rearm robot={self._robot}"
        )


def deadman_file(emergency_file: Path) -> Path:
    """Return the file of the deadman switch that belongs to an emergency stop."""
    return emergency_file.with_name("deadman")


class StopButton:
    """What holds a robot still: emergency stop and, if wanted, deadman switch and guard.

    Args:
        emergency: the emergency stop; None: there is none, as in simulation.
        deadman: the deadman switch; None: not wanted.
        guard: of the robot; None: it can have none.
    """

    def __init__(
        self,
        emergency: EmergencyStop | None,
        deadman: DeadmanSwitch | None = None,
        guard: GuardBeat | None = None,
    ) -> None:
        self._emergency, self._deadman, self._guard = emergency, deadman, guard

    def reason(self) -> tuple[str, str] | None:
        """Return the name and the text of why the robot must not move now, or None."""
        pressed = None if self._emergency is None else self._emergency.pressed()
        if pressed is not None:
            return EMERGENCY_STOP, f"emergency stop ({pressed}); when all is safe: robo-rl rearm"
        if self._deadman is not None and not self._deadman.is_fresh():
            return DEADMAN, "the deadman switch is not held; hold it: robo-rl enable"
        missed = None if self._guard is None else self._guard.missed()
        return None if missed is None else (GUARD_SILENT, missed)

"""Latches that hold robots still, with their reasons and how a person releases them."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ..core import DriverError, GuardBeat, OwnStop, ResetLatch, RoboRLError
from ..core.emergency import default_file, file_of
from ..core.latch import Latch

if TYPE_CHECKING:
    from omegaconf import DictConfig

OWN_STOP = "robo_rl.drivers.robot.own_stop.rearm_robot"
"""Function that calls the service by which a robot's own controller is re-armed."""
OWN_STOP_FACTS = ("service", "name", "namespace", "implementation", "domain", "discovery_range")
"""Arguments of that function."""
KINDS = ("emergency_stop", "own_stop", "reset", "guard")


@dataclass(frozen=True)
class Hold:
    """Latch that holds robots still.

    Attributes:
        what: its name, for display.
        reason: its reason.
        release: releases it.
        since: time at which it was set, in seconds since the epoch, for display; None if it is unknown.
        robot: name of the robot that it holds; None for all robots, or those of a file.
        in_robot: whether the latch is in the robot's own controller.
        passes: whether it ends without a person, such as the latch of a running reset.

    Raises:
        RoboRLError: from ``release``, if it fails; the message states why, and what to do.
    """

    what: str
    reason: str
    release: Callable[[], object]
    since: float | None = None
    robot: str | None = None
    in_robot: bool = False
    passes: bool = False

    @property
    def description(self) -> str:
        """The reason, with the time at which the latch was set."""
        return (
            self.reason
            if self.since is None
            else f"{self.reason} (at {time.strftime('%X', time.localtime(self.since))})"
        )


def release_order(holds: Sequence[Hold]) -> list[Hold]:
    """Return latches in the order in which they must be released: those in robots first.

    A run waits as long as a latch of this machine holds its robot. If that latch were released first, the run would
    begin episodes that the robot refuses, and end after three of them.
    """
    return sorted(holds, key=lambda hold: not hold.in_robot)


def release_holds(holds: Sequence[Hold]) -> tuple[list[str], list[str]]:
    """Release latches in :func:`release_order`, after a person has confirmed it.

    Returns:
        A line for each released latch, and a line with the reason for each one that could not be released.
    """
    released, failed = [], []
    for hold in release_order(holds):
        try:
            hold.release()
        except (RoboRLError, OSError) as error:
            failed.append(f"NOT re-armed: {hold.what}: {error}")
        else:
            released.append(f"Re-armed: {hold.what}{_limitation(hold)}")
    return released, failed


def _limitation(hold: Hold) -> str:
    """Return which stops still hold the robot of a released latch, as text for the end of a line."""
    if hold.robot is None or hold.in_robot or OwnStop(hold.robot).facts() is None:
        return ""
    return (
        ", on this machine alone: its own controller is still stopped, and a run ends after three episodes that it "
        "refuses"
    )


def find_holds(robot: str | None = None) -> list[Hold]:
    """Return the latches that hold this user's robots still: all of them, or those of one robot."""
    holds = []
    if robot is None:
        holds += _holds_of_latch("all robots", Latch(default_file()))
    for name in [robot] if robot is not None else _named(default_file().parent):
        holds += _holds_of(name)
    return holds


def find_stops() -> list[Hold]:
    """Return the latches of :func:`find_holds` that only a person releases."""
    return [hold for hold in find_holds() if not hold.passes]


def find_stops_of(config: "DictConfig") -> list[Hold]:
    """Return the latches that hold the robot or simulation of a configuration still and only a person releases.

    They are those of one robot, and that of all robots or, with ``safety.emergency_stop.file``, of that file.
    """
    from ..app import find_emergency_stop, robot_name  # slow to import, and not needed by robo-rl rearm

    if (emergency := find_emergency_stop(config)) is None:
        return []
    file, robot = config.safety.emergency_stop.file, robot_name(config)
    if robot is None:
        return _holds_of_latch("all robots" if file is None else str(file), Latch(emergency.file))
    holds = _holds_of_latch("all robots", Latch(default_file())) + _holds_of(robot, emergency.file)
    return [hold for hold in holds if not hold.passes]


def _named(folder: Path) -> list[str]:
    """Return the names of robots that have any such file, or a copy of a stop beside the folder."""
    files = [path.name for kind in KINDS for path in folder.glob(f"{kind}.*")]
    copied = f".{folder.name}."
    files += [path.name.removeprefix(copied) for path in folder.parent.glob(f"{copied}emergency_stop.*")]
    names = {file.partition(".")[2] for file in files}
    return sorted(unquote(name) for name in names if name)


def _holds_of_latch(what: str, latch: Latch, robot: str | None = None) -> list[Hold]:
    if (reason := latch.pressed()) is None:
        return []
    return [Hold(what, reason, latch.rearm, _time_of(latch.file), robot)]


def _time_of(file: Path) -> float | None:
    try:
        return file.lstat().st_mtime
    except OSError:
        return None


def _holds_of(robot: str, file: Path | None = None) -> list[Hold]:
    """Return the latches of one robot, its controller's last; ``file`` is that of its emergency stop."""
    what = f"robot {robot}"
    holds = _holds_of_latch(what, Latch(file or file_of(default_file(), robot)), robot)
    beat = GuardBeat(robot)
    if (problem := beat.problem()) is not None:
        if beat.age() is not None:  # a description that states the age would change while a person reads it
            problem = f"the guard of robot {robot!r} no longer looks"
        holds.append(Hold(what, problem, beat.end, _time_of(beat.file), robot))
    reset = ResetLatch(robot)
    if reset.is_held():
        release = functools.partial(_release_reset, reset)
        holds.append(Hold(what, reset.describe(), release, robot=robot, passes=reset.is_under_way()))
    own = OwnStop(robot)
    if (facts := own.facts()) is not None:
        release = functools.partial(_rearm_robot, own, facts)
        holds.append(Hold(f"{what}, its own controller", "it was told to stop", release, robot=robot, in_robot=True))
    return holds


def _release_reset(reset: ResetLatch) -> None:
    if reset.is_under_way():
        raise DriverError("the reset is still waiting for its answer; if none will come, end that process first")
    reset.release()


def _rearm_robot(own: OwnStop, facts: Mapping[str, str]) -> None:
    """Re-arm the robot's own controller.

    Raises:
        DriverError: if it has no service for this, or the service does not answer or refuses.
    """
    if not facts.get("service") or not facts.get("name"):
        raise DriverError(
            f"it names no service for that (robot.rearm_service): release its stop at the robot, and remove {own.file}"
        )
    from omegaconf import OmegaConf

    from ..app import build  # slow to import, and only needed if a robot has a service

    try:
        arguments = {name: facts[name] for name in OWN_STOP_FACTS if name in facts}
        success, message = build(OmegaConf.create({"_target_": OWN_STOP}), **arguments)
    except RoboRLError as error:
        raise DriverError(f"{error}. Release its stop at the robot, and remove {own.file}") from error
    if not success:
        raise DriverError(f"{facts['service']} refused: {message}")
    own.clear()

"""The stops that a run obeys and presses: those of its robot, or none in simulation."""

import contextlib
import functools
import os
from collections.abc import Callable
from pathlib import Path

from omegaconf import DictConfig

from ..core import DeadmanSwitch, EmergencyStop, GuardBeat, StopButton, deadman_file
from ..core.emergency import default_file

SIMULATED = "robo_rl.sim.make_backend"
"""The function that makes purely simulated tasks. An environment of another package may drive a robot."""


def robot_name(config: DictConfig) -> str | None:
    """Return the name of the robot in ``config``, which its latches are named after; None if there is no robot."""
    robot = config.get("robot")
    return None if robot is None else str(robot.name)


def find_emergency_stop(config: DictConfig, simulated: bool = False) -> EmergencyStop | None:
    """Return the emergency stop that ``config`` obeys, or None.

    A robot obeys the stop of all robots and its own. An environment of another package obeys the stop of all robots. A
    simulation obeys a stop only if ``safety.emergency_stop.simulation`` or ``file`` says so.

    Args:
        config: configuration with the sections ``task``, ``safety`` and, for a robot, ``robot``.
        simulated: return the stop of the task's simulation even if there is a robot.
    """
    if "emergency_stop" not in config.safety:
        return None
    settings = config.safety.emergency_stop
    file = None if settings.file is None else Path(settings.file)
    robot = None if simulated else robot_name(config)
    is_simulation = simulated or (robot is None and config.task.get("_target_") == SIMULATED)
    if is_simulation and not settings.simulation and (file is None or robot_name(config) is not None):
        return None
    return EmergencyStop(file, robot)


def find_stop_button(config: DictConfig, simulated: bool = False) -> StopButton:
    """Return all stops of the robot or simulation of ``config``; arguments as in :func:`find_emergency_stop`."""
    emergency = find_emergency_stop(config, simulated)
    if "emergency_stop" not in config.safety:
        return StopButton(None)
    settings, robot = config.safety.emergency_stop, None if simulated else robot_name(config)
    deadman = None
    if settings.deadman and not (simulated and robot_name(config) is not None):
        file = default_file() if settings.file is None else Path(settings.file).expanduser()
        deadman = DeadmanSwitch(deadman_file(file), settings.deadman_timeout)
    guard = None if robot is None else GuardBeat(robot, required=settings.guard)
    return StopButton(emergency, deadman, guard)


def emergency_stop(config: DictConfig, reason: str) -> Callable[[], str] | None:
    """Return a function that presses the emergency stop of ``config``, or None if it has none.

    The function returns the result of :func:`press_emergency_stop`.
    """
    button = find_emergency_stop(config)
    return None if button is None else functools.partial(press_emergency_stop, button, reason)


def press_emergency_stop(button: EmergencyStop, reason: str) -> str:
    """Stop the robot; return the problem, which is also printed, if other processes cannot be stopped, else ""."""
    if button.press(reason):
        return ""
    problem = (
        f"{button.file} CANNOT BE WRITTEN, so the program that drives the robot does not stop it. Use the button "
        "that cuts the power"
    )
    with contextlib.suppress(OSError):  # not with print, which a signal may have interrupted
        os.write(2, f"{problem}\n".encode())
    return problem

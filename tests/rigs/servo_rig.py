"""A driver of an SO-101 whose servos are simulated, behind a real pseudo-terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from hydra import compose, initialize_config_module

from robo_rl.app import build, register_all_configs
from robo_rl.core import SafetyStop
from robo_rl.drivers.servos.backend import ServoBackend

OPTIONS = (
    *("task=reach_so101", "robot=so101", "robot.port=virtual", "robot.real_time_priority=0"),
    *("robot.max_age=1", "robot.answer_timeout=0.1"),
)
"""Readings may be older, and answers later, than by default, because tests share a busy machine."""


def composed(*options: str) -> Any:
    """Return the configuration of ``robo-rl train task=reach_so101 robot=so101 robot.port=virtual`` with options."""
    register_all_configs()
    names = {option.split("=")[0] for option in options}
    defaults = [option for option in OPTIONS if option.split("=")[0] not in names]
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        return compose("train", overrides=[*defaults, *options])


def make_driver(*options: str) -> ServoBackend:
    """Return the driver with further options, without safety filters."""
    config = composed(*options)
    return build(config.robot, simulation=build(config.task))


@contextmanager
def driving(*options: str) -> Iterator[ServoBackend]:
    """Return the driver in an episode, and close it after the block."""
    backend = make_driver(*options)
    try:
        backend.reset(0)
        yield backend
    finally:
        backend.close()


def still(backend: ServoBackend) -> np.ndarray:
    """Return a zero action."""
    return np.zeros(backend.spec.action.shape, np.float32)


def stopped(backend: ServoBackend, steps: int = 30) -> SafetyStop:
    """Step until the arm is stopped; return why."""
    try:
        for _ in range(steps):
            backend.step(still(backend))
    except SafetyStop as stop:
        return stop
    raise AssertionError("the arm was not stopped")


def eventually(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Return whether ``holds`` returns true within some seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True

"""A fake arm in fast motion whose actor is killed, watched from outside: for a test and a benchmark."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from robo_rl.drivers.fake import FakeArmConfig
from robo_rl.drivers.fake.backend import connect

CONFIG = FakeArmConfig()
FAST = 1.5
"""Speed of a joint at which the actor is killed, of the 2 rad/s that it may have [rad/s]."""

ACTOR = """
import hashlib, sys, time, numpy as np
from robo_rl.core import PASSED, SafetyStop
from robo_rl.drivers.fake import make_fake_arm
from robo_rl.safety import make_safe_backend

class Hangs:
    def __init__(self, spec, robot):
        self.calls = 0

    def reset(self):
        pass

    def __call__(self, observation, action, now_ns):
        self.calls += 1
        if self.calls == 8 and HANG:
            print("hangs", flush=True)
            exec(HANG)
        return action, PASSED

HANG = sys.argv[1]
inner = make_fake_arm(max_episode_steps=100000, tolerance=1e-6)
backend = make_safe_backend(inner, filters=[{"target": "__main__.Hangs"}])
backend.reset(0)
print(inner.socket, flush=True)
sign = np.array([1, -1, 1], np.float32)
while True:
    for _ in range(12):
        try:
            backend.step(sign)
        except SafetyStop as stop:
            print(stop, flush=True)
            raise
    sign = -sign
"""


class Observer:
    """Asks the driver's process how the arm is, beside its actor.

    Attributes:
        farthest: position of a joint that was seen [rad].
        fastest: speed of a joint that was seen [rad/s].
    """

    def __init__(self, path: Path) -> None:
        self._connection = connect(path, 5.0)
        self.farthest = self.fastest = 0.0

    def look(self) -> dict:
        self._connection.send(json.dumps({"do": "look"}).encode())
        state = json.loads(self._connection.recv(4096))
        self.farthest = max(self.farthest, float(np.abs(state["position"]).max()))
        self.fastest = max(self.fastest, float(np.abs(state["velocity"]).max()))
        return state

    def speed(self) -> float:
        return float(np.abs(self.look()["velocity"]).max())

    def wait_until_fast(self) -> float:
        deadline = time.monotonic() + 10
        while (speed := self.speed()) < FAST:
            assert time.monotonic() < deadline, "the actor does not move the arm"
        return speed

    def seconds_to_rest(self) -> float:
        began = time.monotonic()
        while self.speed() > 0.0:
            assert time.monotonic() - began < 10, "the arm does not come to rest"
        return time.monotonic() - began


@contextmanager
def moving_arm(hang: str = "") -> Iterator[tuple[subprocess.Popen, Observer]]:
    """An actor's process that moves an arm to and fro, and who watches it.

    ``hang``: code that a safety filter executes while the arm moves, after the line ``hangs``. The line after it is
    the reason why the episode ended.
    """
    process = subprocess.Popen([sys.executable, "-c", ACTOR, hang], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, Observer(Path(process.stdout.readline().strip()))
    finally:
        process.kill()
        process.wait()


class Killed(NamedTuple):
    """What came of a kill: time to rest [s], speed at the kill [rad/s], and the most that was seen in all."""

    seconds: float
    speed: float
    farthest: float
    fastest: float

    @property
    def within_limits(self) -> bool:
        """Whether position, speed and deceleration stayed within the arm's limits."""
        rounding = 1e-6
        return (
            self.farthest <= CONFIG.limit + rounding
            and self.fastest <= CONFIG.velocity + rounding
            and self.seconds >= self.speed / CONFIG.acceleration - 1 / CONFIG.drive_rate
        )


def kill_in_motion() -> Killed:
    """Start an actor, kill -9 it in fast motion, and wait for rest."""
    with moving_arm() as (process, observer):
        speed = observer.wait_until_fast()
        os.kill(process.pid, signal.SIGKILL)
        seconds = observer.seconds_to_rest()
        return Killed(seconds, speed, observer.farthest, observer.fastest)

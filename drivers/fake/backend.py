"""Backend of the fake arm: a small example of a driver."""

import contextlib
import json
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    ArraySpec,
    ConfigError,
    DriverError,
    EnvSpec,
    MonotonicClock,
    RenderingError,
    SafetyStop,
    ScriptedExpert,
    Step,
    generator,
    scratch_folder,
)

from ..watchdog import Watch
from .config import FakeArmConfig
from .process import MESSAGE_BYTES, config_to_json

START_SECONDS = 60.0
"""Longest wait for the driver's process [s]."""


class FakeArmBackend:
    """Client of the process that drives the fake arm in real time.

    Nothing is sent between two actions. A command is valid for one control period. If the next command does not arrive,
    the watchdog of the driver process stops the arm, so the arm comes to rest even if the process of the backend dies.
    """

    def __init__(self, config: FakeArmConfig) -> None:
        self._config = config
        self.clock = MonotonicClock()
        n = config.joints
        names = tuple(f"joint{i}_{kind}" for kind in ("position", "velocity") for i in range(1, n + 1))
        self._spec = EnvSpec(
            task="fake_arm",
            observation={
                "state": ArraySpec((2 * n,), names=names),
                "object": ArraySpec((n,), names=tuple(f"to_target_{i}" for i in range(1, n + 1))),
            },
            action=ArraySpec((n,), low=-1.0, high=1.0, names=tuple(f"joint{i}" for i in range(1, n + 1))),
            action_space="joint_velocity",
            action_frame="joint",
            control_rate=config.control_rate,
            max_episode_steps=config.max_episode_steps,
            reward_terms=("success",),
            extra={"velocity": config.velocity},
        )
        self._target = np.zeros(n)
        self._steps = 0
        self._running = False
        self._deadline_ns = 0
        self._folder = contextlib.ExitStack()
        self.socket = self._folder.enter_context(scratch_folder()) / "arm"  # accessible to this user only
        command = ["-m", "robo_rl.drivers.fake.process", "--socket", str(self.socket), "--config"]
        # A separate session: a signal that ends this program (Ctrl-C) must not end the process that keeps the arm safe.
        self.process = subprocess.Popen(
            [sys.executable, *command, config_to_json(config)], start_new_session=True, stdin=subprocess.DEVNULL
        )
        self._connection = connect(self.socket, START_SECONDS)
        self._connection.settimeout(config.silence)

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    @property
    def robot(self) -> None:
        """The fake arm has no kinematics."""
        return None

    def reset(self, seed: int | None = None) -> Step:
        rng = generator(secrets.randbits(63) if seed is None else seed, "episode")
        reach = 0.6 * self._config.limit
        start, self._target = rng.uniform(-reach, reach, (2, self._config.joints))
        state = self._ask({"do": "begin", "position": start.tolist()})
        self._steps = 0
        self._running = True
        self._deadline_ns = self.clock.now_ns()
        return self._step_of(state, rewarded=False)

    def step(self, action: NDArray[np.float32]) -> Step:
        """Move for one control period of real time.

        Raises:
            SafetyStop: if the driver does not answer, or its watchdog has stopped the arm.
        """
        if not self._running:
            raise RuntimeError("the episode has ended or none was begun: call reset() before step()")
        self._spec.action.check("action", action)
        velocity = action.astype(np.float64) * self._config.velocity
        self._ask({"do": "move", "velocity": velocity.tolist()})
        period_ns = round(1e9 / self._config.control_rate)
        self._deadline_ns = max(self._deadline_ns + period_ns, self.clock.now_ns())
        self.clock.sleep_until_ns(self._deadline_ns)
        state = self._ask({"do": "heartbeat"})
        if state["watch"] == Watch.STOPPED:
            self._running = False
            raise SafetyStop("watchdog", "the watchdog beside the driver has stopped the arm: no command came in time")
        self._steps += 1
        return self._step_of(state, rewarded=True)

    def render(self) -> NDArray[np.uint8]:
        raise RenderingError("the fake arm has no pictures")

    def expert(self, seed: int) -> ScriptedExpert:
        raise ConfigError("the fake arm has no scripted expert: train with demonstrations.episodes=0")

    def stop(self, reason: str) -> None:
        self._running = False
        with contextlib.suppress(SafetyStop):  # a silent driver stops the arm by itself
            self._ask({"do": "stop"})

    def close(self) -> None:
        self._running = False
        self._connection.close()
        self._folder.close()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            self._connection.send(json.dumps(message).encode())
            answer: dict[str, Any] = json.loads(self._connection.recv(MESSAGE_BYTES))
        except (OSError, ValueError) as error:
            self._running = False
            self._connection.close()  # otherwise a late answer would be read as the answer to the next message
            with contextlib.suppress(DriverError):
                self._connection = connect(self.socket, 0.0)
                self._connection.settimeout(self._config.silence)
            raise SafetyStop("driver_silent", f"the driver did not answer in {self._config.silence:g} s") from error
        return answer

    def _step_of(self, state: dict[str, Any], rewarded: bool) -> Step:
        position, velocity = np.array(state["position"]), np.array(state["velocity"])
        offset = self._target - position
        success = bool((np.abs(offset) <= self._config.tolerance).all())
        truncated = rewarded and not success and self._steps >= self._config.max_episode_steps
        self._running = not (rewarded and (success or truncated))
        return Step(
            observation={
                "state": np.concatenate([position, velocity]).astype(np.float32),
                "object": offset.astype(np.float32),
            },
            rewards={"success": float(success and rewarded)},
            terminated=success and rewarded,
            truncated=truncated,
            stamp_ns=state["stamp_ns"],
            success=success,
        )


def connect(path: Path, seconds: float) -> socket.socket:
    """Connect to the driver's socket, waiting up to ``seconds`` for it.

    Raises:
        DriverError: if it is not available in time.
    """
    clock = MonotonicClock()
    deadline_ns = clock.now_ns() + round(seconds * 1e9)
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(str(path))
            return connection
        except OSError as error:
            connection.close()
            if clock.now_ns() >= deadline_ns:
                raise DriverError(f"the driver's process is not there ({path}: {error.strerror})") from error
            clock.sleep_until_ns(clock.now_ns() + 10_000_000)

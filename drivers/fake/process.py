"""Process of the fake arm: joints, watchdog and a socket for commands."""

import argparse
import contextlib
import json
import math
import select
import socket
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import MonotonicClock

from ..watchdog import Watch, Watchdog, WatchdogConfig
from .config import FakeArmConfig

Array = NDArray[np.float64]

LINGER_SECONDS = 3.0
"""Time without connections and at rest after which the process ends [s]."""
LONGEST_TICK = 0.02
"""Longest time step of the joints' motion [s]; a longer one is divided."""
MESSAGE_BYTES = 4096


class Joints:
    """Joints that follow commanded velocities with limited acceleration and stop before their position limits."""

    def __init__(self, config: FakeArmConfig) -> None:
        self._config = config
        self.position = np.zeros(config.joints)
        self.velocity = np.zeros(config.joints)

    def tick(self, wanted: Array, seconds: float) -> None:
        """Move for ``seconds`` towards the velocities ``wanted`` (n,) [rad/s]."""
        config = self._config
        wanted = np.clip(
            wanted,
            -self._stoppable(config.limit + self.position, seconds),
            self._stoppable(config.limit - self.position, seconds),
        )
        wanted = np.clip(wanted, -config.velocity, config.velocity)
        change = config.acceleration * seconds
        self.velocity = self.velocity + np.clip(wanted - self.velocity, -change, change)
        self.position = self.position + self.velocity * seconds

    def _stoppable(self, room: Array, seconds: float) -> Array:
        """Return the largest velocity at which one tick and the braking after it need at most ``room`` (n,) [rad]."""
        acceleration = self._config.acceleration
        speed: Array = acceleration * (np.sqrt(seconds**2 / 4 + 2 * np.maximum(room, 0) / acceleration) - seconds / 2)
        return speed


class Driver:
    """Driver of the joints, commanded by messages with one JSON object per packet.

    ``{"do": "begin", "position": [...]}`` begins an episode, ``{"do": "move", "velocity": [...]}`` is a command,
    ``{"do": "heartbeat"}`` keeps the last command valid, ``{"do": "stop"}`` stops, and ``{"do": "look"}`` only requests
    the state. Each message is answered with the state of the joints. Commands are accepted only from the connection
    that began the episode.

    Args:
        config: configuration of the arm.
        listener: socket (SOCK_SEQPACKET) that accepts connections.
    """

    def __init__(self, config: FakeArmConfig, listener: socket.socket) -> None:
        self._config = config
        self._clock = MonotonicClock()
        self._joints = Joints(config)
        self._watchdog = Watchdog(config.watchdog)
        self._command = np.zeros(config.joints)
        self._listener = listener
        self._clients: list[socket.socket] = []
        self._owner: socket.socket | None = None
        self._now_ns = self._clock.now_ns()

    def run(self) -> None:
        """Drive until no client is connected and the arm is at rest."""
        period_ns = round(1e9 / self._config.drive_rate)
        alone_since_ns = self._now_ns
        while True:
            self._clock.sleep_until_ns(self._now_ns + period_ns)
            self._receive()
            now_ns = self._clock.now_ns()
            self._advance(now_ns)
            if self._clients or self._joints.velocity.any():
                alone_since_ns = now_ns
            elif (now_ns - alone_since_ns) * 1e-9 > LINGER_SECONDS:
                return

    def _advance(self, now_ns: int) -> None:
        moving = self._watchdog.look(now_ns) is Watch.RUN
        remaining = (now_ns - self._now_ns) * 1e-9
        self._now_ns = now_ns
        for _ in range(math.ceil(remaining / LONGEST_TICK)):
            tick = min(remaining, LONGEST_TICK)
            self._joints.tick(self._command if moving else np.zeros_like(self._command), tick)
            remaining -= tick

    def _receive(self) -> None:
        ready = select.select([self._listener, *self._clients], [], [], 0)[0]
        for connection in ready:
            if connection is self._listener:
                client, _ = self._listener.accept()
                client.setblocking(False)
                self._clients.append(client)
                continue
            try:
                while data := connection.recv(MESSAGE_BYTES):
                    self._obey(connection, data)
            except BlockingIOError:
                continue
            except (OSError, ValueError, KeyError, TypeError):
                pass  # a client that sends an invalid message is disconnected
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        self._clients.remove(connection)
        connection.close()
        if connection is self._owner:
            self._owner = None
            self._watchdog.stop()

    def _obey(self, connection: socket.socket, data: bytes) -> None:
        message = json.loads(data)
        kind, now_ns = message["do"], self._clock.now_ns()
        if kind == "begin":
            self._owner = connection
            self._joints.position = self._vector(message["position"], self._config.limit)
            self._joints.velocity[:] = 0.0
            self._command[:] = 0.0
            self._watchdog.begin(now_ns)
        elif connection is self._owner and kind in ("move", "heartbeat"):
            if kind == "move":
                self._command = self._vector(message["velocity"], self._config.velocity)
            self._watchdog.feed(now_ns)
        elif connection is self._owner and kind == "stop":
            self._watchdog.stop()
        elif kind != "look":
            raise ValueError(f"unknown message {kind!r}")
        with contextlib.suppress(BlockingIOError):  # a client that does not read gets no answers
            connection.send(json.dumps(self._state(now_ns)).encode())

    def _vector(self, values: Any, largest: float) -> Array:
        vector = np.array(values, dtype=np.float64)
        if vector.shape != (self._config.joints,) or not (np.abs(vector) <= largest * (1 + 1e-6)).all():
            raise ValueError(f"expected {self._config.joints} values within {largest}, got {values}")
        return vector

    def _state(self, now_ns: int) -> dict[str, Any]:
        return {
            "position": self._joints.position.tolist(),
            "velocity": self._joints.velocity.tolist(),
            "watch": int(self._watchdog.look(now_ns)),
            "stamp_ns": now_ns,
        }


def config_to_json(config: FakeArmConfig) -> str:
    """Return the configuration as JSON for the process."""
    return json.dumps(asdict(config))


def main() -> None:
    """Drive a fake arm: ``python -m robo_rl.drivers.fake.process --socket PATH --config JSON``."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--socket", required=True, type=Path)
    parser.add_argument("--config", required=True)
    arguments = parser.parse_args()
    fields = json.loads(arguments.config)
    fields["watchdog"] = WatchdogConfig(**fields["watchdog"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(arguments.socket))
        listener.listen()
        try:
            Driver(FakeArmConfig(**fields), listener).run()
        finally:
            arguments.socket.unlink(missing_ok=True)


if __name__ == "__main__":
    main()

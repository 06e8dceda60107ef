"""Client of the process that computes a LeRobot policy."""

import json
import os
import socket
import struct
import subprocess
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import RoboRLError, parse_json, printable

VARIABLE = "ROBO_RL_LEROBOT_PYTHON"
"""Environment variable with the path of the interpreter of LeRobot's environment."""
WORKER = Path(__file__).with_name("lerobot_worker.py")
START_SECONDS = 300.0
"""Time limit for the start of the process, which imports LeRobot and loads the policy [s]."""
ANSWER_SECONDS = 60.0
"""Time limit for one action [s]."""
MOST_HEADER = 1 << 16
MOST_ACTIONS = 10_000
"""Largest number of actions in a chunk."""
KEPT_BYTES = 4096
"""Number of bytes of the process's output that are kept, from its end."""
FOREIGN_VARIABLES = ("PYTHONPATH", "PYTHONHOME")
"""Variables for the interpreter of this program. LeRobot's interpreter must not import packages from them."""


class LeRobotError(RoboRLError):
    """Raised if LeRobot's process cannot be started, ends, is silent for too long, or returns no action."""


class LeRobotProcess:
    """Process of LeRobot's interpreter with one policy. It ends with this object, or with the program.

    Args:
        folder: folder of the policy.
        action_size: number of elements of an action.

    Raises:
        LeRobotError: if the interpreter is not named or cannot be started, or the policy cannot be loaded.
    """

    def __init__(self, folder: Path, action_size: int) -> None:
        self._folder, self._size = folder, action_size
        python = os.environ.get(VARIABLE)
        if not python:
            raise LeRobotError(
                f"{folder} is a policy of LeRobot: set the environment variable {VARIABLE} to the Python interpreter "
                "of an environment in which lerobot is installed, such as ~/lerobot/bin/python"
            )
        self._socket, other = socket.socketpair()
        with other:
            try:
                # In a separate session, because a Ctrl-C in the terminal is for this program, which ends the process.
                self._process = subprocess.Popen(
                    [python, "-u", str(WORKER), str(folder)],
                    stdin=other.fileno(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env={name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES},
                    start_new_session=True,
                )
            except OSError as error:
                raise LeRobotError(f"{VARIABLE}={python} cannot be started: {error.strerror or error}") from error
        self._output = _Output(cast(IO[bytes], self._process.stdout))
        self._output.start()
        weakref.finalize(self, _end, self._process, self._socket)
        if (refusal := self._header(time.monotonic() + START_SECONDS).get("refusal")) is not None:
            _end_process(self._process)
            raise LeRobotError(f"{folder} cannot be loaded in {VARIABLE}={python}: {printable(str(refusal))}")

    def act(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return the actions (n, A) for an observation.

        Args:
            header: other data that the process needs, see ``lerobot_worker.answer``.
            arrays: observation by LeRobot's names.

        Raises:
            LeRobotError: if the process has ended, is silent for too long, or does not answer with actions (n, A) of
                finite numbers.
        """
        listed = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
        text = json.dumps({**header, "arrays": listed}).encode()
        data = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())
        try:
            return self._exchange(struct.pack("<I", len(text)) + text + data)
        except BaseException:  # such as Ctrl-C: an unread answer would be taken for the next one
            _end_process(self._process)
            raise

    def _exchange(self, message: bytes) -> NDArray[np.float32]:
        """Send an observation and return the actions for it."""
        deadline = time.monotonic() + ANSWER_SECONDS
        self._socket.settimeout(ANSWER_SECONDS)
        try:
            self._socket.sendall(message)
        except OSError as error:
            raise self._failure("did not take an observation") from error
        shape = self._header(deadline).get("shape")
        if not (isinstance(shape, list) and shape in ([count, self._size] for count in range(1, MOST_ACTIONS + 1))):
            found = printable(str(shape))[:40]
            raise self._failure(f"returned actions of shape {found}, expected [n, {self._size}]")
        count = int(shape[0])
        data = self._receive(4 * count * self._size, deadline)
        actions = np.frombuffer(data, "<f4").astype(np.float32).reshape(count, self._size)
        if not np.isfinite(actions).all():
            raise self._failure(f"returned an action that is not finite: {actions.ravel()[:8]}")
        return actions

    def _header(self, deadline: float) -> dict[str, Any]:
        (length,) = struct.unpack("<I", self._receive(4, deadline))
        header = None
        if length <= MOST_HEADER:
            header = parse_json(self._receive(length, deadline), f"the answer of LeRobot's process for {self._folder}")
        if not isinstance(header, dict):
            raise self._failure("returned an invalid answer")
        return header

    def _receive(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._socket.settimeout(max(1e-3, deadline - time.monotonic()))
            try:
                part = self._socket.recv(size - len(data))
            except TimeoutError as error:
                raise self._failure("was silent for too long") from error
            except OSError as error:
                raise self._failure("ended") from error
            if not part:
                raise self._failure("ended")
            data += part
        return bytes(data)

    def _failure(self, what: str) -> LeRobotError:
        """End the process, and return an error with the last lines that it printed."""
        _end_process(self._process)
        lines = self._output.text().split("\n")
        printed = " / ".join(printable(line.strip()) for line in lines if line.strip() and not line.startswith(" "))
        printed = printed[-600:] or "nothing"
        return LeRobotError(f"LeRobot's process for {self._folder} {what}. It printed: {printed}")


class _Output(Thread):
    """Thread that reads the output of a process continuously, and keeps the last :data:`KEPT_BYTES` of it."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(name="lerobot output", daemon=True)
        self._stream = stream
        self._kept = b""

    def run(self) -> None:
        with self._stream as stream:
            while part := os.read(stream.fileno(), 1 << 16):
                self._kept = (self._kept + part)[-KEPT_BYTES:]

    def text(self) -> str:
        """Return the last output of a process that has ended."""
        self.join(1.0)  # with a time limit, because a child of the process may still hold the stream open
        return self._kept.decode(errors="replace")


def _end_process(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _end(process: "subprocess.Popen[bytes]", connection: socket.socket) -> None:
    _end_process(process)
    connection.close()

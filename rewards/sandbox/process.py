"""Client of the sandboxed process."""

import json
import os
import select
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import RoboRLError

from .language import CodeError, check

Doubles = NDArray[np.float64]

WORKER = Path(__file__).with_name("worker.py")
START_SECONDS = 60.0
"""Time limit for the start of the process, which loads NumPy [s]."""


class RewardCodeError(RoboRLError):
    """Raised if reward code is not allowed, fails, or exceeds its limits."""


class Sandbox:
    """Separate process that runs checked code.

    The process has only two environment variables, for NumPy, no open files except two pipes, and limits on memory and
    processor time. It starts with the first call, and ends with this object.

    Args:
        code: source code in Python, see :mod:`.language`.
        cpu_seconds: processor time for one call, whole seconds.
        memory_megabytes: memory in addition to that of the interpreter and NumPy.

    Attributes:
        arguments: names of the arguments of the code's function ``reward``.

    Raises:
        RewardCodeError: if the code is not in the language.
    """

    def __init__(self, code: str, cpu_seconds: int, memory_megabytes: int) -> None:
        try:
            self.arguments = check(code)
        except CodeError as error:
            raise RewardCodeError(f"reward code: {error}") from error
        self._code = code
        self._cpu_seconds = cpu_seconds
        self._memory = memory_megabytes << 20
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, columns: Doubles) -> Doubles:
        """Return rewards (n,) for the values (arguments, n) of the arguments in n rows.

        Raises:
            RewardCodeError: if the code fails, or the process exceeds a limit.
        """
        process = self._process or self._start()
        count, rows = columns.shape
        head = json.dumps({"shape": [count, rows]}).encode() + b"\n"
        self._send(process, head + np.ascontiguousarray(columns, dtype=np.float64).tobytes())
        # The process limits its processor time. This deadline is for a process that neither computes nor answers.
        deadline = time.monotonic() + 30.0 * (self._cpu_seconds + 1)
        self._read_head(process, deadline)
        return np.frombuffer(self._receive(process, 8 * rows, deadline))

    def _start(self) -> "subprocess.Popen[bytes]":
        arguments = [sys.executable, "-I", "-B", str(WORKER), str(self._cpu_seconds), str(self._memory)]
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            cwd="/",
            bufsize=0,
        )
        weakref.finalize(self, _end, process)
        self._process = process
        self._send(process, json.dumps({"code": self._code}).encode() + b"\n")
        self._read_head(process, time.monotonic() + START_SECONDS)
        return process

    def _send(self, process: "subprocess.Popen[bytes]", data: bytes) -> None:
        pipe, remaining = cast(IO[bytes], process.stdin), memoryview(data)
        try:
            while remaining:
                remaining = remaining[pipe.write(remaining) :]  # because a signal may cut a write short
        except BrokenPipeError:
            self._raise_ended(process)

    def _read_head(self, process: "subprocess.Popen[bytes]", deadline: float) -> None:
        line = b""
        while not line.endswith(b"\n"):
            line += self._receive(process, 1, deadline)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RewardCodeError(f"reward code failed: {answer['error']}")

    def _receive(self, process: "subprocess.Popen[bytes]", size: int, deadline: float) -> bytes:
        descriptor = cast(IO[bytes], process.stdout).fileno()
        data = bytearray()
        while len(data) < size:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                process.kill()
            chunk = os.read(descriptor, size - len(data))
            if not chunk:
                self._raise_ended(process)
            data += chunk
        return bytes(data)

    def _raise_ended(self, process: "subprocess.Popen[bytes]") -> None:
        status = process.wait()
        self._process = None
        megabytes = self._memory >> 20
        raise RewardCodeError(
            f"reward code was ended (status {status}): it may take {self._cpu_seconds} s of processor time for a call "
            f"and {megabytes} MB"
        )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        cast(IO[bytes], pipe).close()

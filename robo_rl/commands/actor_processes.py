"""The actors that a learner starts on its own machine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ..core import DriverError
from ..transport import TransportConfig

STOP_SECONDS = 5.0
PAUSE_SECONDS = 1.0


class ActorProcesses:
    """Starts actors, starts those again that fail, and ends them.

    Args:
        folder: run folder, with its config.yaml; an actor's spool and output are in ``actors/<name>``.
        count: how many actors.
        transport: the wire, as actors need it.
        max_restarts: how often actors that failed are started again, all together.
    """

    def __init__(self, folder: Path, count: int, transport: TransportConfig, max_restarts: int) -> None:
        self._folder = folder
        self._names = [f"actor_{number}" for number in range(count)]
        self._transport = transport
        self._max_restarts = max_restarts
        self.restarts = 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._restart_at: dict[str, float] = {}

    def start(self) -> None:
        """Start all."""
        for name in self._names:
            self._start(name)

    def running(self) -> list[str]:
        """Return the names of those that have not ended."""
        return [name for name, process in self._processes.items() if process.poll() is None]

    def watch(self) -> None:
        """Start those again that failed, a second after they did.

        Raises:
            DriverError: if that has been done ``max_restarts`` times already.
        """
        for name, process in self._processes.items():
            if process.poll() in (None, 0):
                continue
            if name not in self._restart_at:
                if self.restarts >= self._max_restarts:
                    raise DriverError(
                        f"{name} ended with exit code {process.returncode} and has no restart left "
                        f"(runtime.restarts={self._max_restarts}); its output is in {self._output(name)}"
                    )
                self._restart_at[name] = time.monotonic() + PAUSE_SECONDS
                self.restarts += 1
            elif time.monotonic() >= self._restart_at[name]:
                del self._restart_at[name]
                self._start(name)

    def stop(self) -> None:
        """End those that are left: by SIGTERM, and where that does not help by SIGKILL."""
        for name in self.running():
            self._processes[name].send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _output(self, name: str) -> Path:
        return self._folder / "actors" / name / "output.log"

    def _start(self, name: str) -> None:
        output = self._output(name)
        output.parent.mkdir(parents=True, exist_ok=True)
        transport = self._transport
        options = {
            "run": self._folder,
            "actor.name": name,
            "actor.spool": output.parent / "spool",
            "actor.parent": os.getpid(),
            "transport.address": transport.address,
            "transport.certificates": transport.certificates,
            "transport.token_file": transport.token_file,
            "transport.message_bytes": transport.message_bytes,
            "transport.timeout_seconds": transport.timeout_seconds,
            "transport.image_compression": transport.image_compression,
        }
        words = [f"{key}={_quoted(value)}" for key, value in options.items()]
        with output.open("ab") as stream:
            # In a session of its own: Ctrl-C is for the learner, which ends its actors in good order.
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "robo_rl.cli", "actor", *words],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )


def _quoted(value: object) -> str:
    """Return a value as Hydra's overrides want it."""
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return str(value)
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"

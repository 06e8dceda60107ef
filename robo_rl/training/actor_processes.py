"""Actor processes that a learner process starts on its own machine."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Protocol

from ..core import DriverError, own_command
from ..transport import TransportConfig

EXIT_USAGE = 2
EXIT_AWAY = 75
"""Exit code of an actor whose robot is unreachable; EX_TEMPFAIL of sysexits.h."""
STOP_SECONDS = 5.0
PAUSE_SECONDS = 1.0


class ActorGroup(Protocol):
    """Actors that a learner process starts.

    Attributes:
        restarts: number of restarts so far.
    """

    restarts: int

    def resize(self, wanted: int) -> None:
        """Run ``wanted`` actors: start more, or ask the newest ones to hand over their steps and exit."""

    def running(self) -> list[str]:
        """Return the names of the actors that have not ended."""

    def watch(self, acted: Collection[str]) -> None:
        """Restart actors that failed. Call this about once a second.

        Args:
            acted: names of the actors that have taken a step since the learner process started.

        Raises:
            DriverError: if actors failed too often, or one reports that the user has to fix a problem before it can
                act.
        """

    def stop(self) -> None:
        """End the remaining actors. May be called twice."""


class ActorProcesses(ActorGroup):
    """Group of actor processes on this machine: starts them, restarts those that fail, and ends them.

    Args:
        folder: run folder, with its config.yaml; the spool and output of an actor are in ``actors/<name>``.
        transport: transport settings that the actors use.
        max_restarts: number of restarts allowed for all actors together.
        real_time_factor: speed limit of simulators; see :class:`robo_rl.app.ActorConfig`.
        allow: packages that config.yaml may name code from, besides registered ones.
        notify: reports messages about actors to operators.
    """

    def __init__(
        self,
        folder: Path,
        transport: TransportConfig,
        max_restarts: int,
        real_time_factor: float | None = None,
        allow: Sequence[str] = (),
        notify: Callable[[str], None] = print,
    ) -> None:
        self._folder = folder
        self._transport = transport
        self._real_time_factor = real_time_factor
        self._allow, self._notify = allow, notify
        self._away: set[str] = set()
        self._max_restarts = max_restarts
        self.restarts = 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._leaving: dict[str, subprocess.Popen[bytes]] = {}
        self._restart_at: dict[str, float] = {}

    def resize(self, wanted: int) -> None:
        while len(self._processes) > wanted:
            name, process = self._processes.popitem()
            self._restart_at.pop(name, None)
            process.send_signal(signal.SIGTERM)
            self._leaving[name] = process
        for name in free_names([*self._processes, *self.running()], wanted - len(self._processes)):
            self._start(name)

    def running(self) -> list[str]:
        processes = self._leaving | self._processes
        return [name for name, process in processes.items() if process.poll() is None]

    def watch(self, acted: Collection[str]) -> None:
        """Restart actors that failed, one second after their failure.

        An actor that has acted may have lost its robot temporarily, so waiting for the robot costs no restart. An actor
        that has not acted, and whose exit code reports a problem that the user has to fix, is not restarted, because it
        would fail again.

        Args:
            acted: see :class:`ActorGroup`.

        Raises:
            DriverError: if ``max_restarts`` restarts have been used, or a restart would not help.
        """
        for name, process in self._processes.items():
            if process.poll() in (None, 0):
                continue
            if name not in self._restart_at:
                if process.returncode in (EXIT_USAGE, EXIT_AWAY) and name not in acted:
                    raise DriverError(f"{name} cannot act: {self._last_words(name)}")
                if process.returncode == EXIT_AWAY:
                    self._restart_at[name] = time.monotonic() + PAUSE_SECONDS
                    if name not in self._away:
                        self._notify(f"{name} waits for its robot: {self._last_words(name)}")
                    self._away.add(name)
                    continue
                self._away.discard(name)
                if self.restarts >= self._max_restarts:
                    raise DriverError(
                        f"{name} ended with exit code {process.returncode} and has no restart left "
                        f"(runtime.restarts={self._max_restarts}): {self._last_words(name)}"
                    )
                self._restart_at[name] = time.monotonic() + PAUSE_SECONDS
                self.restarts += 1
                count = f"restart {self.restarts} of {self._max_restarts}"
                ended = f"{name} ended with exit code {process.returncode} and is restarted ({count})"
                self._notify(f"{ended}: {self._last_words(name)}")
            elif time.monotonic() >= self._restart_at[name]:
                del self._restart_at[name]
                self._start(name)

    def stop(self) -> None:
        """End the remaining actors with SIGTERM, or with SIGKILL if they do not exit in time."""
        processes = [*self._leaving.values(), *self._processes.values()]
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _output(self, name: str) -> Path:
        return self._folder / "actors" / name / "output.log"

    def _last_words(self, name: str) -> str:
        """Return the last line that an actor printed, and the path of its output."""
        output = self._output(name)
        lines = output.read_text(errors="replace").split("\n") if output.exists() else []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
        return f"{last.removeprefix('robo-rl: ')} (full output: {output})"

    def _start(self, name: str) -> None:
        output = self._output(name)
        output.parent.mkdir(parents=True, exist_ok=True)
        transport = self._transport
        options = {
            "run": self._folder,
            "actor.name": name,
            "actor.spool": output.parent / "spool",
            "actor.parent": os.getpid(),
            "actor.real_time_factor": self._real_time_factor,
            "transport.address": transport.address,
            "transport.certificates": transport.certificates,
            "transport.token_file": transport.token_file,
            "transport.message_bytes": transport.message_bytes,
            "transport.timeout_seconds": transport.timeout_seconds,
            "transport.image_compression": transport.image_compression,
        }
        words = [f"{key}={_quoted(value)}" for key, value in options.items()]
        words.append(f"allow=[{','.join(map(_quoted, self._allow))}]")
        with output.open("ab") as stream:
            # In a separate session, so that Ctrl-C reaches only the learner process, which ends its actors in an
            # orderly way.
            self._processes[name] = subprocess.Popen(
                [*own_command(), "actor", *words],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )


def free_names(taken: Collection[str], wanted: int) -> list[str]:
    """Return the first ``wanted`` actor names that are not ``taken``, so that a new actor may reuse a spool."""
    free = (name for number in count() if (name := f"actor_{number}") not in taken)
    return list(islice(free, max(wanted, 0)))


def _quoted(value: object) -> str:
    """Return a value in the syntax of Hydra overrides."""
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return str(value)
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"

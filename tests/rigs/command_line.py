"""``robo-rl`` in a process of its own."""

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

import pytest

from robo_rl.cli import main

PATIENCE_SECONDS = 900.0
SMALL_AGENT = [
    "agent.hidden=[32]",
    "agent.ensemble_size=3",
    "agent.update_to_data=2",
    "agent.batch_size=32",
    "agent.learning_starts=10",
    "agent.random_steps=5",
    "agent.pretrain_steps=20",
]
"""An agent that takes no time, and learns next to nothing."""

_HEED = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def heeding(*command: str) -> list[str]:
    """Return ``command`` (a path and its arguments) such that it heeds signals that a shell lets be ignored aside.

    Not by ``preexec_fn``: between fork and exec the threads of gRPC of a process that has some may end its child.
    """
    return [sys.executable, "-c", _HEED, *command]


class Forked:
    """A program in a process forked from one that has imported what commands need, with methods as of ``Popen``.

    Imports take most of the time of a short command.

    Args:
        words: the command and its overrides.
        program: what runs, with ``words`` as its arguments (``sys.argv``); by default ``robo-rl``.
        errors: whether standard error goes where standard output does; if not, where that of the tests goes.
        environment: variables in addition to those of the tests.
        folder: working folder, by default that of the tests.
    """

    def __init__(
        self,
        *words: str,
        program: Callable[[], object] = main,
        errors: bool = True,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        reading, writing = os.pipe()
        variables = {**os.environ, **(environment or {})}
        self._process = _FORKING.Process(
            target=_run,
            args=(program, words, variables, folder or Path.cwd(), _Output(writing), _Output(writing if errors else 2)),
        )
        self._process.start()
        os.close(writing)
        assert self._process.pid is not None
        self.pid = self._process.pid
        self.stdout = os.fdopen(reading, encoding="utf-8", errors="replace")

    @property
    def returncode(self) -> int | None:
        """Its exit code; None as long as it runs."""
        return self._process.exitcode

    poll = returncode.fget

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; return its exit code."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("robo-rl", timeout or 0.0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Wait until it ends; return what it printed."""
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.extend(self.stdout), daemon=True)
        reader.start()
        reader.join(timeout)
        if reader.is_alive():
            raise subprocess.TimeoutExpired("robo-rl", timeout or 0.0, "".join(lines))
        self.wait(timeout)
        self.stdout.close()
        return "".join(lines), None

    def send_signal(self, number: int) -> None:
        """Send a signal to it, if it runs."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


Program = Forked | subprocess.Popen[str]


def start(*words: str) -> subprocess.Popen[str]:
    """Start ``robo-rl`` with these words in a new interpreter, as a user does, with other hashes of strings."""
    command = [sys.executable, "-m", "robo_rl.cli", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: Program, code: int = 0) -> str:
    """Wait until it ends with exit code ``code``; return what it printed."""
    try:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == code, output
    return output


def robo_rl(*words: str, code: int = 0) -> str:
    """Run ``robo-rl`` with these words to its end; return what it printed.

    The process is forked as :class:`Forked` is.
    """
    with tempfile.TemporaryFile() as output:
        both = _Output(output.fileno()), _Output(output.fileno())
        process = _FORKING.Process(target=_run, args=(main, words, dict(os.environ), Path.cwd(), *both))
        process.start()
        process.join(PATIENCE_SECONDS)
        if process.exitcode is None:
            process.kill()
        process.join()
        output.seek(0)
        text = output.read().decode(errors="replace")
    assert process.exitcode == code, text
    return text


def exit_code(*words: str) -> int:
    """Run ``robo-rl`` in this process; return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([*words])
    return int(ended.value.code or 0)


def refusal(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    """Run ``robo-rl`` in this process, which ends with an error; return the last line on standard error."""
    capsys.readouterr()
    assert exit_code(*words) == code
    return capsys.readouterr().err.splitlines()[-1]


class _Output:
    """A file descriptor that is passed on to a forked process."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (DupFd(self.descriptor),)


def _received(copy: Any) -> int:
    return int(copy.detach())


def _run(
    program: Callable[[], object],
    words: tuple[str, ...],
    environment: dict[str, str],
    folder: Path,
    output: int,
    errors: int,
) -> None:
    """Run a program in a process that was just forked."""
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.close(output)
    os.close(errors)
    # Those of the forking process may have been made for files, which have positions as a pipe has not.
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["robo-rl", *words]
    try:
        program()
    finally:
        atexit._run_exitfuncs()  # which a forked process does not call


_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.rigs.preloaded"])

"""``robo-rl`` in a process of its own."""

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 300.0
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


def start(*words: str) -> subprocess.Popen[str]:
    """Start ``robo-rl`` with these words."""
    command = [sys.executable, "-m", "robo_rl.cli", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
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

    The process is forked from one that has imported what commands need: imports take most of the time of a short
    command. :func:`start` starts a new interpreter, as a user does, with other hashes of strings.
    """
    with tempfile.TemporaryFile() as output:
        process = _FORKING.Process(target=_run, args=(words, dict(os.environ), Path.cwd(), _Output(output.fileno())))
        process.start()
        process.join(PATIENCE_SECONDS)
        if process.exitcode is None:
            process.kill()
        process.join()
        output.seek(0)
        text = output.read().decode(errors="replace")
    assert process.exitcode == code, text
    return text


class _Output:
    """A file descriptor that is passed on to a forked process."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (DupFd(self.descriptor),)


def _received(copy: Any) -> int:
    return int(copy.detach())


def _run(words: tuple[str, ...], environment: dict[str, str], folder: Path, output: int) -> None:
    """Run a command in a process that was just forked."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["robo-rl", *words]
    from robo_rl.cli import main

    try:
        main()
    finally:
        atexit._run_exitfuncs()  # which a forked process does not call


_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.rigs.preloaded"])

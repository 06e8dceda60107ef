"""``robo-rl`` in a process of its own."""

import subprocess
import sys

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
    """Run ``robo-rl`` with these words to its end; return what it printed."""
    return finish(start(*words), code)

"""Folders of the drivers of pretended robots: those of killed processes are removed by the next start."""

import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from robo_rl.drivers.fake import make_fake_arm
from robo_rl.drivers.servos.virtual_bus import VirtualBus

from ..rigs.command_line import Forked, finish


def make() -> None:
    """Make a pretended robot, print what is in the temporary folder, and be killed or close it."""
    kind, end = sys.argv[1:]
    tempfile.tempdir = None  # the one of the forking process
    made = VirtualBus(None, threading.Lock()) if kind == "servos" else make_fake_arm()
    print([path.name for path in Path(tempfile.gettempdir()).iterdir()], flush=True)
    if end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    made.close()


@pytest.mark.parametrize("kind", ["servos", "fake arm"])
def test_folders_of_killed_processes_do_not_accumulate(kind: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # the path of a socket has 107 characters at most
        outputs = []
        for end in ("killed", "killed", "closed"):
            process = Forked(kind, end, program=make, environment={"TMPDIR": short})
            outputs.append(finish(process, code=-signal.SIGKILL if end == "killed" else 0))
        folders = [names_in(output) for output in outputs]
        assert all(len(names) == 1 for names in folders), folders
        assert folders[0] != folders[1] != folders[2], "each has one of its own"
        assert list(Path(short).iterdir()) == [], "the last was closed"


def names_in(output: str) -> list[str]:
    return output.strip("[]\n").split(", ")

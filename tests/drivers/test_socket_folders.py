"""Folders of the drivers of pretended robots: those of killed processes are removed by the next start."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

MAKE = """
import os, signal, sys, threading
import robo_rl.drivers
if sys.argv[1] == "servos":
    from robo_rl.drivers.servos.virtual_bus import VirtualBus
    made = VirtualBus(None, threading.Lock())
else:
    from robo_rl.drivers.fake import make_fake_arm
    made = make_fake_arm()
print(os.listdir(os.environ["TMPDIR"]), flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
made.close()
"""


@pytest.mark.parametrize("kind", ["servos", "fake arm"])
def test_folders_of_killed_processes_do_not_accumulate(kind: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # the path of a socket has 107 characters at most
        environment = os.environ | {"TMPDIR": short}
        outputs = []
        for end in ("killed", "killed", "closed"):
            command = [sys.executable, "-c", MAKE, kind, end]
            outputs.append(subprocess.run(command, capture_output=True, text=True, env=environment).stdout)
        folders = [names_in(output) for output in outputs]
        assert all(len(names) == 1 for names in folders), folders
        assert folders[0] != folders[1] != folders[2], "each has one of its own"
        assert list(Path(short).iterdir()) == [], "the last was closed"


def names_in(output: str) -> list[str]:
    return output.strip("[]\n").split(", ")

"""A learner in a process of its own, to be killed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from robo_rl.core import Transition
from robo_rl.replay import Intake, ReplayRing
from robo_rl.transport import TransportConfig

from .replay_episodes import SPEC, assert_same
from .transport_rig import ActorRig, steps_of, stored_steps, wait_until

# Imports once, then forks a learner for each line of its input: a restart costs no imports.
FORKS_LEARNERS = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from tests.rigs.transport_rig import serve
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        serve(*sys.argv[2:5])
    print(child, flush=True)
"""


class LearnerProcess:
    """A learner in a process of its own, which may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.replay = folder / "replay"
        self.config = TransportConfig(f"unix:{folder}/socket", timeout_seconds=1.0)
        self._ready = folder / "ready"
        root = Path(__file__).resolve().parents[2]
        arguments = [str(root), self.config.address, str(self.replay), str(self._ready)]
        self._forker = subprocess.Popen(
            [sys.executable, "-c", FORKS_LEARNERS, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.process = 0

    def start(self) -> None:
        assert self._forker.stdin is not None and self._forker.stdout is not None
        self._forker.stdin.write("\n")
        self._forker.stdin.flush()
        self.process = int(self._forker.stdout.readline())

    def wait_until_ready(self) -> None:
        wait_until(self._ready.exists)

    def signal(self, number: int) -> None:
        os.kill(self.process, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{self.process}").exists())
        self._ready.unlink(missing_ok=True)

    def memory_bytes(self) -> int:
        (line,) = [
            line for line in Path(f"/proc/{self.process}/status").read_text().splitlines() if line.startswith("VmRSS")
        ]
        return int(line.split()[1]) * 1024

    def close(self) -> None:
        if Path(f"/proc/{self.process}").exists() and self.process:
            self.kill()
        assert self._forker.stdin is not None
        self._forker.stdin.close()
        self._forker.wait()


class Kill(NamedTuple):
    """A moment at which a learner was killed.

    Attributes:
        acknowledged: steps that the actor's spool had forgotten by then.
        committed: steps that the learner's store was found to hold.
        spooled: steps that the actor's spool held still.
    """

    acknowledged: int
    committed: int
    spooled: int


def survive_kills(learner: LearnerProcess, spool: Path, kills: int, seed: int) -> list[Kill]:
    """Kill a learner at random moments while an actor sends; return them.

    After each, what is stored must begin with every step that was acknowledged, equal what the actor made, bit for bit,
    and give the same replay memory as those steps themselves. In the end all steps must be stored, once.
    """
    rig = ActorRig(learner.config, spool)
    session = rig.join()
    moments = random.Random(seed)
    steps = steps_of(session, [moments.randint(1, 30) for _ in range(12 * kills)])
    found: list[Kill] = []
    sent = 0
    for _ in range(kills):
        until = min(sent + moments.randint(1, len(steps) // kills), len(steps))
        learner.wait_until_ready()
        rig.put(steps[sent:until])
        sent = until
        time.sleep(moments.uniform(0, 1.5))  # the actor comes back, and several commits are made
        learner.kill()
        acknowledged, end = rig.spool.extent(session)
        committed = stored_steps(learner.replay).get(("robot", session), [])
        assert len(committed) >= acknowledged, "the spool forgot a step that was not stored"
        assert_same(committed, steps[: len(committed)])
        assert_same_replay(learner.replay, committed)
        found.append(Kill(acknowledged, len(committed), end - acknowledged))
        learner.start()
    rig.put(steps[sent:])
    rig.finish()
    rig.close()
    learner.kill()
    assert_same(stored_steps(learner.replay)["robot", session], steps)
    assert_same_replay(learner.replay, steps)
    return found


def assert_same_replay(replay: Path, steps: list[Transition]) -> None:
    """Check that the memory of a resumed learner is that of one which was given these steps."""
    rings = [ReplayRing(2 * len(steps) + 2, SPEC) for _ in range(2)]
    intake = Intake(replay, SPEC)
    assert intake.recover(rings[0]) == len(steps)
    intake.close()
    rings[1].append(steps)
    found, expected = (ring.state() for ring in rings)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, strict=True, err_msg=name)

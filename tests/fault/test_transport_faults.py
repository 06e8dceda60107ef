"""Processes are killed and stopped, disks are full, strangers send rubbish: no step is lost, none is stored twice."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from robo_rl.actor import SpoolFullError
from robo_rl.replay import Intake
from robo_rl.transport import TransportConfig

from ..rigs.learner_process import LearnerProcess, survive_kills
from ..rigs.malformed_packets import MalformedPackets
from ..rigs.replay_episodes import SPEC, assert_same
from ..rigs.tcp_proxy import TcpProxy
from ..rigs.transport_rig import ActorRig, make_server, steps_of, stored_steps, wait_until
from .test_replay_recording import small_disk

__all__ = ["small_disk"]

KILLS = 8
PACKETS = 3000


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[LearnerProcess]:
    made = LearnerProcess(tmp_path)
    made.start()
    yield made
    made.close()


needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="waits for the end of a process through /proc")


@needs_proc
def test_kill_9_of_the_learner_at_random_moments_loses_and_doubles_nothing(
    learner: LearnerProcess, tmp_path: Path
) -> None:
    moments = survive_kills(learner, tmp_path / "spool", KILLS, seed=0)
    assert len(moments) == KILLS
    assert moments[-1].committed > 0
    assert any(moment.spooled > 0 for moment in moments), "no kill came while steps were on their way"


@needs_proc
def test_a_learner_that_is_stopped_does_not_hold_the_actor(learner: LearnerProcess, tmp_path: Path) -> None:
    rig = ActorRig(learner.config, tmp_path / "spool")
    session = rig.join()
    steps = steps_of(session, [10] * 6)
    rig.put(steps[:20])
    wait_until(lambda: rig.spool.held_records == 0)
    learner.signal(signal.SIGSTOP)
    seconds = []
    for step in steps[20:]:
        began = time.monotonic()
        rig.put([step])
        seconds.append(time.monotonic() - began)
        time.sleep(0.05)
    assert sorted(seconds)[-5] < 0.5, "a busy machine delays one or the other, a learner that is waited for all"
    wait_until(lambda: not rig.link.status.connected)
    assert rig.spool.held_records == 40
    learner.signal(signal.SIGCONT)
    wait_until(lambda: rig.spool.held_records == 0)
    rig.finish()
    rig.close()
    assert_same(stored_steps(learner.replay)["robot", session], steps)


def test_a_connection_that_died_without_a_word_is_renewed(tmp_path: Path) -> None:
    """Fault case 14, where nobody says that the connection is gone: another access point, a router that forgot."""
    with contextlib.ExitStack() as ends:
        intake = Intake(tmp_path / "replay", SPEC)
        ends.callback(intake.close)
        server = make_server(TransportConfig("127.0.0.1:0"), intake)
        ends.callback(server.close, 0)
        proxy = TcpProxy(int(server.address.rpartition(":")[2]))
        ends.callback(proxy.close)
        rig = ActorRig(TransportConfig(f"127.0.0.1:{proxy.port}", timeout_seconds=1.0), tmp_path / "spool")
        ends.callback(rig.close)
        session = rig.join()
        steps = steps_of(session, [5, 4])
        rig.put(steps[:5])
        wait_until(lambda: rig.link.status.stored == 5)
        proxy.swallow()
        rig.put(steps[5:])
        wait_until(lambda: not rig.link.status.connected)
        proxy.mend()
        wait_until(lambda: rig.link.status.connected)
        # The learner does not know that the old connection is dead.
        assert server.order("robot", "success")
        orders: list[str] = []
        wait_until(lambda: bool(orders.extend(rig.link.take_orders()) or orders))
        assert orders == ["success"]
        rig.finish()
    assert_same(stored_steps(tmp_path / "replay")["robot", session], steps)


ACTS_UNTIL_KILLED = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
from robo_rl.transport import TransportConfig
from tests.rigs.transport_rig import ActorRig, steps_of
rig = ActorRig(TransportConfig(sys.argv[2], timeout_seconds=1.0), pathlib.Path(sys.argv[3]))
session = rig.join()
for step in steps_of(session, [7, 5, 9] * 100):
    rig.put([step])
    print(session, step.sequence, flush=True)
"""


@needs_proc
def test_kill_9_of_the_actor_loses_no_step_that_was_appended(learner: LearnerProcess, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    appended: dict[int, int] = {}
    for kill in range(3):
        actor = subprocess.Popen(
            [sys.executable, "-c", ACTS_UNTIL_KILLED, str(root), learner.config.address or "", str(tmp_path / "spool")],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert actor.stdout is not None
        for line in actor.stdout:
            session, sequence = map(int, line.split())
            appended[session] = sequence + 1
            if sequence > 20 * (kill + 1):
                break
        actor.kill()
        for line in actor.stdout.read().splitlines(keepends=True):
            if line.endswith("\n"):  # the last one may have been cut off
                appended[session] = int(line.split()[1]) + 1
        actor.wait()
    rig = ActorRig(learner.config, tmp_path / "spool")
    last = rig.join()
    rig.finish()
    rig.close()
    found = stored_steps(learner.replay)
    assert len(appended) == 3 and last == max(appended) + 1
    for session, count in appended.items():
        stored = found["robot", session]
        assert len(stored) >= count
        assert_same(stored, steps_of(session, [7, 5, 9] * 100)[: len(stored)])


def test_a_full_disk_of_the_learner_pauses_and_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    intake = Intake(small_disk / "replay", SPEC)
    server = make_server(TransportConfig("127.0.0.1:0", timeout_seconds=20.0), intake)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 * 1024 * 1024))
    rig = ActorRig(TransportConfig(server.address, timeout_seconds=20.0), tmp_path / "spool")
    session = rig.join()
    steps = steps_of(session, [200] * 8)
    rig.put(steps)
    wait_until(lambda: "No space left on device; free space" in rig.link.status.blocked)
    assert rig.spool.held_records > 0
    ballast.unlink()
    wait_until(lambda: intake.totals().stored == len(steps) or bool(intake.blocked()))
    rig.finish()
    rig.close()
    server.close(0)
    intake.close()
    assert_same(stored_steps(small_disk / "replay")["robot", session], steps)


def test_a_full_disk_of_the_actor_refuses_and_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    intake = Intake(tmp_path / "replay", SPEC)
    server = make_server(TransportConfig("127.0.0.1:0", timeout_seconds=20.0), intake)
    rig = ActorRig(TransportConfig(server.address, timeout_seconds=20.0), small_disk / "spool")
    session = rig.join()
    ballast = small_disk / "ballast"
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    ballast.write_bytes(bytes(free - 64 * 1024))
    server.close(0)
    steps = steps_of(session, [200])
    records = [rig.encoder.encode(step) for step in steps]
    kept = 0
    with pytest.raises(SpoolFullError, match="No space left on device; free space on this disk"):
        for step in steps:
            rig.spool.append(step.sequence, records[step.sequence])
            kept += 1
    assert 0 < kept < 200 and rig.spool.extent(session) == (0, kept)
    ballast.unlink()
    server = make_server(TransportConfig(server.address, timeout_seconds=20.0), intake)
    for step in steps[kept:]:
        rig.spool.append(step.sequence, records[step.sequence])
    rig.finish()
    rig.close()
    server.close(0)
    intake.close()
    assert_same(stored_steps(tmp_path / "replay")["robot", session], steps)


@needs_proc
def test_malformed_packets_neither_stop_the_learner_nor_fill_its_memory_nor_execute(
    learner: LearnerProcess, tmp_path: Path
) -> None:
    learner.wait_until_ready()
    packets = MalformedPackets(str(learner.config.address), tmp_path / "executed")
    packets.send(PACKETS // 3)
    before = learner.memory_bytes()
    packets.send(2 * PACKETS // 3)
    assert learner.memory_bytes() - before < 50e6
    assert not (tmp_path / "executed").exists()
    packets.close()
    rig = ActorRig(learner.config, tmp_path / "spool", actor="honest")
    session = rig.join()
    assert rig.link.wait_for_policy(120)
    np.testing.assert_array_equal(rig.link.take_policy()[1]["weight"], np.arange(4, dtype=np.float32))
    steps = steps_of(session, [5, 6], actor="honest")
    rig.put(steps)
    rig.finish()
    rig.close()
    learner.kill()
    assert_same(stored_steps(learner.replay)["honest", session], steps)

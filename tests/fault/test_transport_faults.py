"""Processes are killed and stopped, disks are full, strangers send rubbish: no step is lost, none is stored twice."""

import contextlib
import json
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

from robo_rl.actor import SpoolFullError
from robo_rl.replay import Intake
from robo_rl.transport import TransportConfig
from robo_rl.transport import messages_pb2 as messages
from robo_rl.transport.service import CONTROL, EXCHANGE, JOIN, WATCH

from ..replay_episodes import SPEC, assert_same
from ..transport_rig import RUN, ActorRig, make_server, steps_of, stored_steps, wait_until
from .test_replay_recording import small_disk

__all__ = ["small_disk"]

KILLS = 20
PACKETS = 3000

# Imports once, then forks a learner for each line of its input: a restart costs no imports.
FORKS_LEARNERS = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from tests.transport_rig import serve
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        serve(*sys.argv[2:5])
    print(child, flush=True)
"""


class Learner:
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


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[Learner]:
    made = Learner(tmp_path)
    made.start()
    yield made
    made.close()


needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="waits for the end of a process through /proc")


@needs_proc
def test_kill_9_of_the_learner_at_random_moments_loses_and_doubles_nothing(learner: Learner, tmp_path: Path) -> None:
    rig = ActorRig(learner.config, tmp_path / "spool")
    session = rig.join()
    moments = random.Random(0)
    steps = steps_of(session, [moments.randint(1, 30) for _ in range(12 * KILLS)])
    sent = 0
    for _ in range(KILLS):
        until = min(sent + moments.randint(1, len(steps) // KILLS), len(steps))
        rig.put(steps[sent:until])
        sent = until
        time.sleep(moments.uniform(0, 0.15))
        learner.kill()
        first = rig.spool.extent(session)[0]
        committed = stored_steps(learner.replay).get(("robot", session), [])
        assert len(committed) >= first, "the spool forgot a step that was not stored"
        assert_same(committed, steps[: len(committed)])
        learner.start()
    rig.put(steps[sent:])
    rig.finish()
    rig.close()
    assert_same(stored_steps(learner.replay)["robot", session], steps)


@needs_proc
def test_a_learner_that_is_stopped_does_not_hold_the_actor(learner: Learner, tmp_path: Path) -> None:
    rig = ActorRig(learner.config, tmp_path / "spool")
    session = rig.join()
    steps = steps_of(session, [10] * 6)
    rig.put(steps[:20])
    wait_until(lambda: rig.spool.held_records == 0)
    learner.signal(signal.SIGSTOP)
    slowest = 0.0
    for step in steps[20:]:
        began = time.monotonic()
        rig.put([step])
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.05)
    assert slowest < 0.5
    wait_until(lambda: not rig.link.status.connected)
    assert rig.spool.held_records == 40
    learner.signal(signal.SIGCONT)
    began = time.monotonic()
    wait_until(lambda: rig.spool.held_records == 0)
    assert time.monotonic() - began < 10
    rig.finish()
    rig.close()
    assert_same(stored_steps(learner.replay)["robot", session], steps)


ACTS_UNTIL_KILLED = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
from robo_rl.transport import TransportConfig
from tests.transport_rig import ActorRig, steps_of
rig = ActorRig(TransportConfig(sys.argv[2], timeout_seconds=1.0), pathlib.Path(sys.argv[3]))
session = rig.join()
for step in steps_of(session, [7, 5, 9] * 100):
    rig.put([step])
    print(session, step.sequence, flush=True)
"""


@needs_proc
def test_kill_9_of_the_actor_loses_no_step_that_was_appended(learner: Learner, tmp_path: Path) -> None:
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


class Canary:
    """A pickle of it makes a file when it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.file),)


@needs_proc
def test_malformed_packets_neither_stop_the_learner_nor_fill_its_memory_nor_execute(
    learner: Learner, tmp_path: Path
) -> None:
    learner.wait_until_ready()
    canary = pickle.dumps(Canary(tmp_path / "executed"))
    rng = random.Random(1)
    path = str(learner.config.address).removeprefix("unix:")

    def raw(data: bytes) -> None:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(1)
            stream.connect(path)
            with contextlib.suppress(OSError):
                stream.sendall(data)

    for data in (
        canary,
        b"\0" * 5000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + rng.randbytes(2000),
        rng.randbytes(100_000),
    ):
        raw(data)
    channel = grpc.insecure_channel(str(learner.config.address))
    calls = {call.name: channel.unary_unary(call.path) for call in (JOIN, EXCHANGE, CONTROL)}
    calls["Watch"] = lambda data, timeout: list(channel.unary_stream(WATCH.path)(data, timeout=timeout))
    facts = json.dumps({"spec": SPEC.to_json()})
    join = messages.JoinRequest(protocol=1, actor="robot", facts=facts).SerializeToString()
    joined = messages.JoinReply.FromString(calls["Join"](join, timeout=10))
    exchange = messages.ExchangeRequest(
        run=RUN,
        incarnation=joined.incarnation,
        actor="robot",
        session=joined.session,
        record_session=joined.session,
        records=[canary, messages.Record(sequence=0, observation=canary, step=canary).SerializeToString()],
    ).SerializeToString()
    whole = {"Join": join, "Exchange": exchange, "Control": b"\n\x05pause", "Watch": exchange}

    def mutated(data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            position = rng.randrange(len(changed))
            kind = rng.randrange(3)
            if kind == 0:
                changed[position] = rng.randrange(256)
            elif kind == 1:
                del changed[position : position + rng.randint(1, 20)]
            else:
                changed[position:position] = rng.randbytes(rng.randint(1, 20))
            if not changed:
                break
        return bytes(changed)

    def send(count: int) -> None:
        for number in range(count):
            name = rng.choice(list(calls)[:3] if number % 50 else ["Watch"])
            kind = rng.randrange(4)
            data = canary if kind == 0 else rng.randbytes(rng.randint(0, 300)) if kind == 1 else mutated(whole[name])
            if name == "Control" and data == whole["Control"]:
                continue
            with contextlib.suppress(grpc.RpcError):
                calls[name](data, timeout=0.2 if name == "Watch" else 10)

    send(PACKETS // 3)
    before = learner.memory_bytes()
    send(2 * PACKETS // 3)
    assert learner.memory_bytes() - before < 50e6
    assert not (tmp_path / "executed").exists()
    channel.close()
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

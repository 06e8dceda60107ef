"""Throughput of steps from an actor's spool to the learner's disk, and latency of policies back, over loopback.

python benchmarks/bench_transport.py [--output FILE.json] [--only images policy]

The learner is a process of its own. Steps count when they are durable: appended to the spool before, committed to the
learner's data set after, and forgotten by the spool. The rate is that at which a learner takes in what an actor's spool
holds. Prints the figures and writes them as JSON.

Beside the wall time stands the CPU time of both processes meanwhile: on a machine that does nothing else a step takes
no longer than both together (one core), and no less than the larger of both (two).
"""

import multiprocessing
import multiprocessing.connection
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from made_up import random_array, spec_of, transitions_of
from numpy.typing import NDArray
from table_runs import machine, make_parser, write_json

from robo_rl.actor import Spool
from robo_rl.core import ArraySpec, EnvSpec, Transition
from robo_rl.replay import EpisodeStore, Intake, ReplayRing
from robo_rl.transport import LearnerLink, LearnerServer, RecordEncoder, TransportConfig

STATE = {"state": ArraySpec((24,)), "object": ArraySpec((13,))}
CAMERA = ArraySpec((128, 128, 3), "uint8")
IMAGES = {"state": ArraySpec((24,)), "images/front": CAMERA, "images/wrist": CAMERA}
EPISODE_STEPS = 100
STATE_STEPS = 200_000
IMAGE_STEPS = 24_000
LEROBOT_STEPS = 2_000
PACED_EPISODES = 30
POLICY_BYTES = 10_000_000
POLICIES = 40


def steps_of(spec: EnvSpec, count: int) -> list[Transition]:
    """Made-up episodes; images look like a camera's: smooth, with a little noise."""
    ramp = np.linspace(0, 200, 128 * 128 * 3).reshape(CAMERA.shape)

    def draw(array: ArraySpec, number: int, rng: np.random.Generator) -> NDArray[Any]:
        if array.dtype != "uint8":
            return random_array(array, number, rng)
        return (ramp + number % 50 + rng.integers(0, 4, array.shape)).astype(np.uint8)

    return transitions_of(spec, count, draw, session=1, rewards=False)


def learn(
    address: str,
    folder: Path,
    observation: dict[str, ArraySpec],
    policies: int,
    pipe: "multiprocessing.connection.Connection[Any, Any]",
) -> None:
    """Be a learner: take steps in, give policies out whose version is the time of their publication."""
    spec = spec_of(observation)
    intake = Intake(folder, spec)
    server = LearnerServer(TransportConfig(address), "benchmark", spec, intake, lambda facts: [])
    pipe.send("ready")
    pipe.recv()
    began = time.process_time(), written_bytes()
    if policies:
        state = {"weight": np.random.default_rng(0).standard_normal(POLICY_BYTES // 4).astype(np.float32)}
        for _ in range(policies):
            server.publish(time.monotonic_ns(), state)
            time.sleep(0.25)
    while not pipe.poll(0.05):
        intake.take()
    server.close(0)
    intake.close()
    pipe.send((time.process_time() - began[0], written_bytes() - began[1]))


def written_bytes() -> int:
    """Return how many bytes this process has written into files."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


class Session:
    """A learner process, and an actor's end in this one."""

    def __init__(self, folder: Path, observation: dict[str, ArraySpec], policies: int = 0) -> None:
        address = f"unix:{folder}/socket"
        self.pipe, child_pipe = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self.replay = folder / "replay"
        arguments = (address, self.replay, observation, policies, child_pipe)
        self.process = context.Process(target=learn, args=arguments, daemon=True)
        self.process.start()
        self.pipe.recv()
        self.spec = spec_of(observation)
        self.spool = Spool(folder / "spool")
        self.link = LearnerLink(TransportConfig(address), "actor", self.spec, {}, self.spool)
        assert self.link.join(0, lambda: False)
        self.spool.bind(self.link.run)
        self.spool.begin_session(self.link.session)

    def close(self) -> tuple[float, int]:
        """Return the CPU seconds and the bytes written of the learner."""
        self.link.close()
        self.spool.close()
        self.pipe.send("end")
        used: tuple[float, int] = self.pipe.recv()
        self.process.join()
        return used


def ingest(folder: Path, observation: dict[str, ArraySpec], count: int) -> dict[str, float]:
    session = Session(folder, observation)
    steps = steps_of(session.spec, count)
    encoder = RecordEncoder(session.spec)
    sent, began_cpu = 0, time.process_time()
    for step in steps:
        record = encoder.encode(step)
        session.spool.append(step.sequence, record)
        sent += len(record)
    append_cpu = time.process_time() - began_cpu
    session.pipe.send("begin")
    began, began_cpu = time.perf_counter(), time.process_time()
    session.link.start()
    assert session.link.finish(600)
    seconds, actor_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    learner_cpu, written = session.close()
    row = sum(array.nbytes for array in observation.values())
    began, began_cpu = time.perf_counter(), time.process_time()
    intake = Intake(session.replay, session.spec)
    recovered = intake.recover(ReplayRing(count + count // EPISODE_STEPS + 1, session.spec))
    recovery, recovery_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    intake.close()
    assert recovered == count
    stored = stored_bytes(session.replay)
    return {
        "steps": count,
        "steps_per_second": count / seconds,
        "megabytes_per_second": count * row / seconds / 1e6,
        "actor_cpu_microseconds": actor_cpu / count * 1e6,
        "learner_cpu_microseconds": learner_cpu / count * 1e6,
        "append_cpu_microseconds": append_cpu / count * 1e6,
        "raw_bytes_per_step": row,
        "sent_bytes_per_step": sent / count,
        "stored_bytes_per_step": stored / count,
        "write_amplification": written / stored,
        "recovery_seconds": recovery,
        "recovery_cpu_seconds": recovery_cpu,
    }


def stored_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def robot_pace(folder: Path, observation: dict[str, ArraySpec]) -> dict[str, float]:
    """Episodes that come one at a time, as from a robot: each is a commit, which rewrites the chunks that it shares."""
    spec = spec_of(observation)
    steps = steps_of(spec, PACED_EPISODES * EPISODE_STEPS)
    with EpisodeStore.create(folder / "episodes", spec) as store, mock.patch("os.fsync", wraps=os.fsync) as synchronise:
        began, written, clock = time.process_time(), written_bytes(), time.perf_counter()
        for first in range(0, len(steps), EPISODE_STEPS):
            store.append_episodes([steps[first : first + EPISODE_STEPS]])
        seconds, written, clock = time.process_time() - began, written_bytes() - written, time.perf_counter() - clock
        synchronised = synchronise.call_count
    stored = stored_bytes(folder)
    return {
        "episodes": PACED_EPISODES,
        "commit_synchronisations": synchronised / PACED_EPISODES,
        "commit_milliseconds": clock / PACED_EPISODES * 1e3,
        "write_amplification": written / stored,
        "written_bytes_per_step": written / len(steps),
        "commit_cpu_milliseconds": seconds / PACED_EPISODES * 1e3,
    }


def image_compression() -> dict[str, float]:
    """Bytes of a step on the wire by ``transport.image_compression``, and the time to make them."""
    spec = spec_of(IMAGES)
    steps = steps_of(spec, 2 * EPISODE_STEPS)
    found = {}
    for compression in (None, "zstd", "jpeg"):
        encoder = RecordEncoder(spec, compression)
        began = time.process_time()
        sent = sum(len(encoder.encode(step)) for step in steps)
        found[f"{compression or 'none'}_bytes_per_step"] = sent / len(steps)
        found[f"{compression or 'none'}_cpu_milliseconds"] = (time.process_time() - began) / len(steps) * 1e3
    return found


def lerobot(folder: Path, observation: dict[str, ArraySpec], count: int) -> dict[str, float]:
    """The same steps over LeRobot's wire, which keeps nothing on a disk; nothing where it is not installed."""
    try:
        from lerobot_transport import measure
    except ImportError as error:
        print(f"LeRobot is left out: {error}")
        return {}
    steps = steps_of(spec_of(observation), count)
    episodes = [steps[first : first + EPISODE_STEPS] for first in range(0, count, EPISODE_STEPS)]
    return measure(f"unix:{folder}/lerobot", episodes, sum(array.nbytes for array in observation.values()))


def publication(folder: Path) -> dict[str, float]:
    session = Session(folder, STATE, POLICIES)
    session.link.start()
    session.link.receive({"weight": np.empty(POLICY_BYTES // 4, np.float32)})
    session.pipe.send("begin")
    latencies: list[float] = []
    # On a busy machine some are replaced by a newer one before they came.
    while len(latencies) < POLICIES - 2 and session.link.wait_for_policy(30):
        policy = session.link.take_policy()
        assert policy is not None
        latencies.append((time.monotonic_ns() - policy[0]) / 1e6)
    session.close()
    return {
        "bytes": POLICY_BYTES,
        "policies": len(latencies),
        "median_ms": statistics.median(latencies),
        "largest_ms": max(latencies),
    }


MEASUREMENTS: dict[str, Callable[[Path], dict[str, float]]] = {
    "state": lambda folder: ingest(folder, STATE, STATE_STEPS),
    "images": lambda folder: ingest(folder, IMAGES, IMAGE_STEPS),
    "lerobot_state": lambda folder: lerobot(folder, STATE, LEROBOT_STEPS),
    "lerobot_images": lambda folder: lerobot(folder, IMAGES, LEROBOT_STEPS),
    "state_robot_pace": lambda folder: robot_pace(folder, STATE),
    "images_robot_pace": lambda folder: robot_pace(folder, IMAGES),
    "wire": lambda folder: image_compression(),
    "policy": publication,
}


def main() -> None:
    parser = make_parser(__doc__, "--output")
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, default=list(MEASUREMENTS))
    options = parser.parse_args()
    results = machine()
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            results[name] = MEASUREMENTS[name](Path(folder))
        print(f"{name:18}" + "  ".join(f"{key} {value:,.1f}" for key, value in results[name].items()), flush=True)
        write_json(options.output, results)


if __name__ == "__main__":
    main()

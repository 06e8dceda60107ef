"""The control loop of a robot at 20 Hz, with two cameras of 128x128 pixels and 500 Hz joint states, beside a learner.

python benchmarks/bench_robot_loop.py [--minutes 10] [--pages 3] [--output docs/measured/results/robot_loop.json]

Three processes, as on the machine of a robot: `robo-rl robot`, `robo-rl learner` with `agent=drq`, which learns from
the images as fast as it can and holds nobody up, and `robo-rl actor`, in this process. Between robot and actor is DDS
on loopback. Prints what the driver says of its periods and commands, and fails (exit code 1) unless no step was missed,
the 99th percentile of how late periods ended is under 5 ms and the median from a complete observation to its command
under 15 ms. With ``--pages``, pages of `robo-rl web` show the cameras meanwhile, and the pictures that each page
receives are counted.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_web import choose, page_of, serving
from table_runs import ROOT, composed, machine, make_parser, write_json

from robo_rl.app import build
from robo_rl.core import Interruption
from robo_rl.drivers.robot.rate import RateKeeper, percentiles
from robo_rl.drivers.ros2 import open_node
from robo_rl.training.remote_actor import RemoteActor

sys.path.insert(0, str(ROOT))

from tests.rigs.ros2_domain import free_domain

TASK = [
    "task=pick_cube",
    "task.control_rate=20",
    "task.max_episode_steps=400",
    "task.observation.cameras=[front,wrist]",
    "task.observation.width=128",
    "task.observation.height=128",
    "task.observation.object=false",
]
ROBOT = ["virtual.state_rate=500", "virtual.real_time_priority=10"]
AGENT = ["robot=virtual", "agent=drq", "agent.pretrain_steps=0", "agent.learning_starts=100"]
LEARNER = [
    "demonstrations.episodes=4",
    "run.env_steps=1000000",
    "run.evaluation_interval=0",
    "run.replay_capacity=20000",
    "runtime.actors=0",
    "runtime.min_ratio=0",
    "runtime.threads=1",
    "logging.progress=false",
]
WARM_PERIODS = 200
"""The learner has begun with its updates then."""
JITTER_MS, LATENCY_MS = 5.0, 15.0
VIEWER = "import sys; sys.path.insert(0, sys.argv[1]); from bench_robot_loop import view; view(*sys.argv[2:])"
"""Program of one page: a browser is a process of its own, too."""


class Process:
    """A command of robo-rl that is ready when it says so, and ended with the block."""

    def __init__(self, ready: str, *words: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "robo_rl.cli", *words]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.pid = self._process.pid
        assert self._process.stdout is not None
        if not any(ready in line for line in self._process.stdout):
            raise RuntimeError(f"robo-rl {words[0]} ended before it was ready")
        self._drain = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._drain.start()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(120)
        self._drain.join()


class Stalls:
    """Times at which a core stood still, see stalls.py; meanwhile nobody can keep a period."""

    def __enter__(self) -> "Stalls":
        script = str(ROOT / "benchmarks/stalls.py")
        self._watchers = [
            subprocess.Popen([sys.executable, script, str(core)], stdout=subprocess.PIPE, text=True)
            for core in sorted(os.sched_getaffinity(0))
        ]
        return self

    def __exit__(self, *_: object) -> None:
        found = []
        for watcher in self._watchers:
            watcher.terminate()
            found += [json.loads(line) for line in watcher.communicate()[0].splitlines()]
        self.late_ns: list[tuple[int, int]] = sorted((at, late) for at, late in found)

    def longest_ms(self, from_ns: int, until_ns: int) -> float:
        """Return how long a core stood still at most, of the times that reach into an interval [ms]."""
        late = [late for at, late in self.late_ns if at >= from_ns and at - late <= until_ns]
        return max(late, default=0) * 1e-6


class Pages:
    """Pages of ``robo-rl web`` that show the cameras of a run until the block ends.

    Attributes:
        rates: pictures per second of each camera that each page received, once the block has ended.
    """

    def __init__(self, run: Path, count: int) -> None:
        self._run, self._count = run, count
        self._exits = contextlib.ExitStack()
        self._viewers: list[subprocess.Popen[str]] = []
        self.rates: list[dict[str, float]] = []

    def __enter__(self) -> "Pages":
        if self._count > 0:
            address = self._exits.enter_context(serving(self._run.parent, self._run.parent / "state"))
            words = [sys.executable, "-c", VIEWER, str(ROOT / "benchmarks"), *address, str(self._run)]
            self._viewers = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(self._count)]
        return self

    def __exit__(self, *_: object) -> None:
        for viewer in self._viewers:
            viewer.terminate()
            self.rates.append(json.loads(viewer.communicate(timeout=20)[0]))
        self._exits.close()


def view(origin: str, host: str, token: str, run: str) -> None:
    """Show a run until SIGTERM; then print the pictures per second of each camera as JSON."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    times: dict[str, list[float]] = {}
    with contextlib.suppress(KeyboardInterrupt), page_of(origin, host, token) as page:
        while not choose(page, run):
            pass
        while True:
            message = page.recv()
            if isinstance(message, bytes):
                heading = json.loads(message.partition(b"\n")[0])
                times.setdefault(heading["camera"], []).append(time.monotonic())
    print(json.dumps({camera: (len(at) - 1) / (at[-1] - at[0]) for camera, at in times.items() if len(at) > 1}))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def summary(nanoseconds: list[int]) -> dict[str, float]:
    median, high = percentiles(nanoseconds)
    return {"p50": median, "p99": high, "max": max(nanoseconds) * 1e-6}


def measure(rate: RateKeeper, minutes: float, processes: dict[str, int], found: dict[str, Any]) -> None:
    """Note what the actor's loop does for so long, once it turns; then end the actor."""
    with open_node("bench") as node:
        rates: list[float] = []

        def diagnosed(message: Any) -> None:
            rates.extend(float(pair.value) for pair in message.status[0].values if pair.key == "states_per_second")

        while rate.periods < WARM_PERIODS:
            time.sleep(0.1)
        node.create_subscription("diagnostic_msgs/msg/DiagnosticArray", "diagnostics", diagnosed)
        for values in (rate.late, rate.reactions, rate.ages):
            values.clear()
        periods, overruns, began = rate.periods, rate.overruns, time.monotonic()
        used = {name: cpu_seconds(pid) for name, pid in processes.items()}
        missed, noted_ns = [], time.monotonic_ns()
        with Stalls() as stalls:
            while time.monotonic() < began + 60 * minutes:
                time.sleep(1.0)
                before_ns, noted_ns = noted_ns, time.monotonic_ns()
                missed += [(before_ns, noted_ns)] * (rate.overruns - overruns - len(missed))
        seconds = time.monotonic() - began
        found |= {
            "seconds": seconds,
            "periods": rate.periods - periods,
            "missed": rate.overruns - overruns,
            "missed_while_a_core_stood_still_for_ms": [round(stalls.longest_ms(*when), 1) for when in missed],
            "cores_stood_still": {
                f"{limit}_ms_or_more": sum(late >= limit * 1e6 for _, late in stalls.late_ns) for limit in (5, 25)
            },
            "late_ms": summary(list(rate.late)),
            "complete_observation_to_command_ms": summary(list(rate.reactions)),
            "oldest_measurement_to_command_ms": summary(list(rate.ages)),
            "states_per_second": float(np.median(rates)),
            "cores_used": {name: (cpu_seconds(pid) - used[name]) / seconds for name, pid in processes.items()},
        }
    os.kill(os.getpid(), signal.SIGTERM)


def act(words: list[str], minutes: float, processes: dict[str, int], found: dict[str, Any]) -> None:
    """Do what `robo-rl actor` does with ``words``, by a robot whose control periods are measured."""
    config = composed("actor", words)
    torch.set_num_threads(config.actor.threads)
    with Interruption() as interruption:
        robot = build(config.robot, simulation=build(config.task))
        backend = build(config.safety, backend=robot)
        threading.Thread(target=measure, args=(robot.rate, minutes, processes, found), daemon=True).start()
        try:
            code = RemoteActor(config, backend, interruption).run()
        finally:
            backend.close()
    if not {"periods", "missed"} <= found.keys():
        raise RuntimeError(f"the actor ended before its time, with exit code {code}")


def main() -> int:
    parser = make_parser(__doc__, "--output")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--pages", type=int, default=0)
    arguments = parser.parse_args()
    report = machine()
    with tempfile.TemporaryDirectory() as folder, free_domain() as environment:
        os.environ.update(environment)
        run, address = Path(folder) / "run", f"unix:{folder}/learner"
        wire = f"runtime.transport.address={address}"
        with (
            Process("Ctrl-C ends it", "robot", *TASK, *ROBOT) as robot,
            Process("Actors may join", "learner", *TASK, *AGENT, *LEARNER, wire, f"run.dir={run}") as learner,
        ):
            processes = {"robot": robot.pid, "learner": learner.pid, "actor": os.getpid()}
            words = [*TASK, *AGENT, f"actor.spool={folder}/spool", f"transport.address={address}"]
            with Pages(run, arguments.pages) as pages:
                act(words, arguments.minutes, processes, report)
            report["pictures_per_second"] = pages.rates
            rows = [json.loads(row) for row in (run / "metrics.jsonl").read_text().splitlines()]
            report["learner_steps_per_env_step"] = [row["ratio"] for row in rows if row["kind"] == "runtime"][-1]
    print(json.dumps(report, indent=2), flush=True)
    write_json(arguments.output, report)
    kept = report["missed"] == 0 and report["late_ms"]["p99"] < JITTER_MS
    return 0 if kept and report["complete_observation_to_command_ms"]["p50"] < LATENCY_MS else 1


if __name__ == "__main__":
    sys.exit(main())

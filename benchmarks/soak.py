"""A long run under faults, which may lose no step, leak nothing and learn no less than an undisturbed one.

    make soak                                                   half an hour of faults
    make soak MINUTES=5                                         fewer
    python benchmarks/soak.py --minutes 30 --seed 0 --output docs/measured/results/soak.json

A learner and two actors, each a process of its own. At random moments one of them is killed (SIGKILL) or stopped for
seconds (SIGSTOP), the connection of an actor is cut, or a disk is full: no file may grow any more (RLIMIT_FSIZE), for
the learner or an actor. What ends is started again. At the end collecting pauses, the actors are killed once more, and
what lies in their spools says how many steps each session produced. The same number of steps is then learned from
without faults. Fails (exit code 1) unless

- each step of each session that was produced is stored or counted as refused, once, and the episodes are whole;
- memory and file descriptors of the processes are no more in the last third than in the first, but for a tolerance;
- the policy succeeds as often as that of the undisturbed run, but for a tolerance.
"""

import collections
import json
import os
import random
import resource
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from soak_processes import PATIENCE_SECONDS, Process, free_port, wait_until
from table_runs import make_parser, write_json

from robo_rl.actor import Spool
from robo_rl.core import RoboRLError
from robo_rl.replay import EpisodeStore
from robo_rl.transport import TransportConfig, send_command
from tests.rigs.tcp_proxy import TcpProxy

ACTORS = ("left", "right")
AGENT = ["task=reach", "agent.update_to_data=4", "agent.batch_size=128"]
RUN = [
    "run.evaluation_interval=0",
    "run.checkpoint_interval=200",
    "run.final_evaluation_episodes=50",
    "run.video_episodes=0",
    "runtime.threads=1",
    "runtime.finish_seconds=60",
]
SAMPLE_SECONDS = 2.0
WARM_SECONDS = 30.0
"""A process is compared with others once it is this old: imports take memory, and seconds."""

MEMORY_TOLERANCE_BYTES = 64e6
DESCRIPTOR_TOLERANCE = 10
SUCCESS_TOLERANCE = 0.15
"""Of 50 episodes each: two standard errors of a difference of rates near 0.9."""


class Soak:
    """The run with faults, in ``folder``."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._folder = folder
        self.run = folder / "run"
        port = free_port()
        self._wire = TransportConfig(f"127.0.0.1:{port}", timeout_seconds=20.0)
        self.proxies = {name: TcpProxy(port) for name in ACTORS}
        fresh = [
            "learner",
            *AGENT,
            *RUN,
            f"seed={seed}",
            f"run.dir={self.run}",
            f"runtime.transport.address={self._wire.address}",
        ]
        # Until the first checkpoint there is nothing to resume.
        self.learner = Process("learner", [*fresh, "run.env_steps=1000000000"], ["train", f"resume={self.run}"])
        self.actors = {
            name: Process(
                name,
                [
                    "actor",
                    *AGENT,
                    f"actor.name={name}",
                    f"actor.spool={self._spool(name)}",
                    f"transport.address=127.0.0.1:{self.proxies[name].port}",
                ],
            )
            for name in ACTORS
        }
        self.faults: collections.Counter[str] = collections.Counter()
        self.samples: list[tuple[float, str, int, int]] = []
        self.produced: dict[tuple[str, int], int] = {}
        self._restores: list[tuple[float, Callable[[], None]]] = []

    def _spool(self, name: str) -> Path:
        return self._folder / "spools" / name

    @property
    def processes(self) -> list[Process]:
        return [self.learner, *self.actors.values()]

    # --- faults ------------------------------------------------------------------------------------------------------

    def endure(self, minutes: float, period: float) -> None:
        """Let a fault happen every ``period`` seconds on average."""
        self.learner.start()
        wait_until(lambda: any(self.run.glob("checkpoints/step_*")), self.learner)
        for actor in self.actors.values():
            actor.start()
        began = time.monotonic()
        next_fault, next_sample = began + WARM_SECONDS, began
        while (now := time.monotonic()) < began + 60 * minutes:
            for when, restore in list(self._restores):
                if now >= when:
                    restore()
                    self._restores.remove((when, restore))
            for process in self.processes:
                if process.code is not None:
                    process.note_end()
                    self._take_stock(process)
                    process.start()
            if now >= next_sample:
                next_sample = now + SAMPLE_SECONDS
                self._sample((now - began) / (60 * minutes))
            if now >= next_fault:
                next_fault = now + self._random.uniform(0.5, 1.5) * period
                self._disturb(now)
            time.sleep(0.05)
        for _, restore in self._restores:
            restore()

    def _disturb(self, now: float) -> None:
        victim = self._random.choice(self.processes)
        fault = self._random.choice(["kill", "stop", "disconnect", "disk_full"])
        until = now + self._random.uniform(2, 8)
        if fault == "kill":
            victim.kill()
        elif fault == "stop":
            victim.signal(signal.SIGSTOP)
            self._restores.append((until, lambda: victim.signal(signal.SIGCONT)))
        elif fault == "disk_full":
            victim.limit_files(1)
            self._restores.append((until, lambda: victim.limit_files(resource.RLIM_INFINITY)))
        else:
            cut = [victim.name] if victim is not self.learner else ACTORS
            for name in cut:
                self.proxies[name].cut(until - now)
        self.faults[f"{fault} {'learner' if victim is self.learner else 'actor'}"] += 1
        print(f"{fault} {victim.name}", flush=True)

    def _sample(self, progress: float) -> None:
        for process in self.processes:
            if process.code is None and process.age > WARM_SECONDS:
                role = "learner" if process is self.learner else "actor"
                self.samples.append((progress, role, *process.usage()))

    def _take_stock(self, process: Process) -> None:
        """Read in the spool of an actor that has ended how many steps each session produced."""
        if process is self.learner:
            return
        with Spool(self._spool(process.name)) as spool:
            for session in spool.sessions():
                key = process.name, session
                self.produced[key] = max(self.produced.get(key, 0), spool.extent(session)[1])

    # --- the end -----------------------------------------------------------------------------------------------------

    def finish(self) -> dict[str, Any]:
        """Bring what is left home, end the run, and return its summary."""
        if self.learner.code is not None:
            self.learner.start()
        wait_until(self._pauses, self.learner)
        before = self._newest_sessions()
        for actor in self.actors.values():
            actor.kill()
            self._take_stock(actor)
            actor.start()  # for what its spool holds: no episode begins
        # Who comes when the run has ended would wait for it to go on.
        wait_until(lambda: self._have_joined_since(before), self.learner, *self.actors.values())
        wait_until(self._is_all_settled, self.learner, *self.actors.values())
        send_command(self._wire, "stop")
        wait_until(lambda: self.learner.code is not None)
        for actor in self.actors.values():
            wait_until(lambda actor=actor: actor.code is not None)  # type: ignore[misc]
        assert self.learner.code == 0, self.learner.output
        summary: dict[str, Any] = json.loads((self.run / "summary.json").read_text())
        return summary

    def _pauses(self) -> bool:
        try:
            return "accepted" in send_command(self._wire, "pause")
        except RoboRLError:
            return False  # it is being started

    def _newest_sessions(self) -> dict[str, int]:
        """Return the number of each actor's newest session."""
        entries = [json.loads(line) for line in (self.run / "replay" / "ledger.jsonl").read_text().splitlines()]
        return {name: max(entry["session"] for entry in entries if entry["actor"] == name) for name in self.actors}

    def _have_joined_since(self, before: dict[str, int]) -> bool:
        now = self._newest_sessions()
        return all(now[name] > before[name] for name in self.actors)

    def _is_all_settled(self) -> bool:
        stored, refused = self.settled()
        return all(stored.get(key, 0) + refused.get(key, 0) >= count for key, count in self.produced.items())

    def settled(self) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """Return how many steps of each session lie in the store, and are counted as refused in the ledger.

        Raises:
            AssertionError: if one is there twice, or out of order.
        """
        stored: collections.Counter[tuple[str, int]] = collections.Counter()
        refused: collections.Counter[tuple[str, int]] = collections.Counter()
        seen: dict[tuple[str, int], set[int]] = collections.defaultdict(set)
        for line in (self.run / "replay" / "ledger.jsonl").read_text().splitlines():
            entry = json.loads(line)
            if "refused" in entry:
                key = entry["actor"], entry["session"]
                refused[key] += entry["count"]
                seen[key].update(range(entry["sequence"], entry["sequence"] + entry["count"]))
        with EpisodeStore.open(self.run / "replay" / "episodes") as store:
            for record in store.records:
                key = record.actor, record.session
                steps = set(range(record.sequence, record.sequence + record.steps))
                assert not steps & seen[key], f"steps of {key} are stored twice"
                seen[key] |= steps
                stored[key] += record.steps
        return stored, refused

    def close(self) -> None:
        for process in self.processes:
            if process.starts:
                process.kill()
        for proxy in self.proxies.values():
            proxy.close()


def undisturbed(folder: Path, seed: int, steps: int, patience: float) -> dict[str, Any]:
    """Learn from as many steps without faults, within ``patience`` [s]; return the run's summary."""
    words = ["train", *AGENT, *RUN, f"seed={seed}", f"run.dir={folder}", f"run.env_steps={steps}"]
    process = Process("undisturbed", [*words, "runtime=async", f"runtime.actors={len(ACTORS)}"])
    process.start()
    try:
        wait_until(lambda: process.code is not None, patience=patience)
    finally:
        process.kill()
    assert process.code == 0, process.output
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return summary


def flatness(samples: list[tuple[float, str, int, int]]) -> dict[str, Any]:
    """Compare the first third of the time with the last, by role."""
    found: dict[str, Any] = {}
    for role in ("learner", "actor"):
        early = [sample[2:] for sample in samples if sample[1] == role and sample[0] < 1 / 3]
        late = [sample[2:] for sample in samples if sample[1] == role and sample[0] > 2 / 3]
        if not early or not late:
            found[role] = None
            continue
        before, after = ([statistics.median(column) for column in zip(*part, strict=True)] for part in (early, late))
        found[role] = {
            "memory_early_megabytes": before[0] / 1e6,
            "memory_late_megabytes": after[0] / 1e6,
            "descriptors_early": before[1],
            "descriptors_late": after[1],
            "is_flat": after[0] - before[0] < MEMORY_TOLERANCE_BYTES and after[1] - before[1] < DESCRIPTOR_TOLERANCE,
        }
    return found


def main() -> int:
    parser = make_parser(__doc__, "--output")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--period", type=float, default=15.0, help="mean time between two faults [s]")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        soak = Soak(Path(name), options.seed)
        try:
            soak.endure(options.minutes, options.period)
            summary = soak.finish()
        finally:
            soak.close()
        stored, refused = soak.settled()
        steps = summary["env_steps"]
        print(f"{steps} steps; now as many without faults", flush=True)
        # It takes less time than with faults, but on a machine that is busy with other things.
        patience = PATIENCE_SECONDS + 2 * 60 * options.minutes
        plain = undisturbed(Path(name) / "undisturbed", options.seed, steps, patience)
    sessions = soak.produced.keys() | stored.keys() | refused.keys()
    lost = sum(abs(soak.produced.get(key, 0) - stored.get(key, 0) - refused.get(key, 0)) for key in sessions)
    rates = [run["success_rate"]["value"] for run in (summary, plain)]
    usage = flatness(soak.samples)
    results = {
        "minutes": options.minutes,
        "seed": options.seed,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[1],
        "faults": dict(sorted(soak.faults.items())),
        "starts": {process.name: process.starts for process in soak.processes},
        "ended_by_itself": {process.name: process.ended_by_itself for process in soak.processes},
        "sessions": len(sessions),
        "produced": sum(soak.produced.values()),
        "stored": sum(stored.values()),
        "refused": sum(refused.values()),
        "not_accounted_for": lost,
        "usage": usage,
        "success_rate": rates[0],
        "success_rate_undisturbed": rates[1],
    }
    print(json.dumps(results, indent=2))
    write_json(options.output, results)
    is_flat = all(role is None or role["is_flat"] for role in usage.values())
    return int(bool(lost) or not is_flat or abs(rates[0] - rates[1]) > SUCCESS_TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())

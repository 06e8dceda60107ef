"""Full iterations a second: ours beside Stable-Baselines3, SBX, RLPD in JAX and RLtools.

python benchmarks/bench_update.py [--critics 10 2] [--rounds 15] [--threads 2] [--cold] [--json FILE]

An iteration is what one environment step pays for: 20 critic updates of 256 rows that are drawn from a filled replay,
one update of the actor and one of the temperature; observation 40, action 7, networks of 2 x 256, LayerNorm in the
critics. Each implementation has a process of its own, kept to the same processors; all have turns in each round of
one run, and so has the processor's own peak (multiply-adds on registers): ratios do not depend on what else the
machine does, or less.

best, median: iterations a second. /RLPD, /SBX, /RLtools: the median over that of the other. cpu ms: least processor
time of an iteration, all threads together, which other work on the machine hardly touches. import, first: seconds from
the start of the process until everything is imported, and for construction and the first iteration, compilation
included; with --cold nothing compiled before is used. MB: resident memory at the end. actor: its updates in an
iteration. clock, cpu: operations of the matrix products over the peak of that precision, by the clock (best update
without sampling, best peak) and by processor time.
"""

import argparse
import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from update_implementations import IMPLEMENTATIONS, capable
from update_problem import Problem, UnavailableError

PACKAGES = ("torch", "jax", "optax", "sbx-rl", "stable-baselines3", "rltools", "numpy")
PEAKS_PER_ROUND = 5
COLUMNS = (
    ("best/s", "best_per_s", ".2f"),
    ("median/s", "median_per_s", ".2f"),
    ("/RLPD", "over_rlpd", ".2f"),
    ("/SBX", "over_sbx", ".2f"),
    ("/RLtools", "over_rltools", ".2f"),
    ("cpu ms", "cpu_ms", ".1f"),
    ("import s", "import_s", ".2f"),
    ("first s", "first_s", ".2f"),
    ("MB", "memory_mb", ".0f"),
    ("actor", "actor_steps", ".0f"),
    ("clock", "share_by_clock", ".0%"),
    ("cpu", "share_by_cpu", ".0%"),
)
"""Heading, key of a row, and format."""

HEADER = f"{'implementation':<17} critics " + " ".join(f"{heading:>8}" for heading, _, _ in COLUMNS)


class WorkerProcess:
    """A process that does one implementation; it ends with the ``with`` block.

    It has no accelerator, as many threads as the problem says, and if ``cold`` compiler caches of its own, empty.
    """

    def __init__(self, name: str, problem: Problem, cold: bool) -> None:
        self.name = name
        self.kind = IMPLEMENTATIONS[name]
        self._caches = tempfile.TemporaryDirectory()
        environment = os.environ | {
            "OMP_NUM_THREADS": str(problem.threads),
            "MKL_NUM_THREADS": str(problem.threads),
            "OPENBLAS_NUM_THREADS": str(problem.threads),
            "JAX_PLATFORMS": "cpu",
            "CUDA_VISIBLE_DEVICES": "",
        }
        if cold:
            caches = self._caches.name
            environment |= {
                "XDG_CACHE_HOME": caches,
                "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
                "TMPDIR": caches,
            }
        script = Path(__file__).with_name("update_worker.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), name, problem.to_json(), str(time.monotonic())],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, command: str) -> dict[str, Any]:
        """Send a command; return the answer.

        Raises:
            UnavailableError: saying what is missing or what failed.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            print(command, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise UnavailableError(f"failed: its process ended with exit code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "unavailable" in answer:
            raise UnavailableError(answer["unavailable"])
        return answer

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        # The end of its input lets it end by itself, and compilers that it has started with it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=10)
        self._process.kill()
        self._process.communicate()
        self._caches.cleanup()


def compare(
    problem: Problem, names: Sequence[str], rounds: int, iterations: int, cold: bool = False
) -> list[dict[str, Any]]:
    """Return a row for each implementation; one that cannot be measured has ``unavailable`` and says why."""
    rows: dict[str, dict[str, Any]] = {name: {"implementation": name, "critics": problem.critics} for name in names}
    turns: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    peaks: dict[str | None, list[dict[str, float]]] = {}
    with contextlib.ExitStack() as stack:
        workers: list[WorkerProcess] = []

        def ask(worker: WorkerProcess, command: str) -> dict[str, Any]:
            """Return the answer; a worker that has none is left out from then on."""
            try:
                return worker.ask(command)
            except UnavailableError as error:
                rows[worker.name]["unavailable"] = str(error)
                workers.remove(worker)
                return {}

        # One after the other: a start-up shares the machine with nothing of ours.
        for name in names:
            workers.append(stack.enter_context(WorkerProcess(name, problem, cold)))
            rows[name] |= ask(workers[-1], "start")
        for _ in range(rounds):
            for worker in workers.copy():
                if turn := ask(worker, f"turn {iterations}"):
                    turns[worker.name].append(turn)
            for worker in workers.copy():
                if worker.name.startswith("native") and (peak := ask(worker, f"peak {PEAKS_PER_ROUND}")):
                    peaks.setdefault(worker.kind.precision, []).append(peak)
        for worker in workers.copy():
            rows[worker.name] |= ask(worker, "finish")

    for name, row in rows.items():
        if "unavailable" not in row:
            own_peaks = peaks.get(IMPLEMENTATIONS[name].precision, [])
            row |= speed(turns[name]) | utilisation(problem, turns[name], own_peaks)
    for key, reference in (("over_rlpd", "RLPD in JAX"), ("over_sbx", "SBX"), ("over_rltools", "RLtools")):
        per_s = rows.get(reference, {}).get("median_per_s")
        for row in rows.values():
            if per_s and "median_per_s" in row:
                row[key] = row["median_per_s"] / per_s
    return list(rows.values())


def speed(turns: list[dict[str, Any]]) -> dict[str, float]:
    """Return iterations a second, and the least processor time of one [ms]."""
    seconds = [value for turn in turns for value in turn["seconds"]]
    cpu_seconds = [value for turn in turns for value in turn["cpu_seconds"]]
    return {"best_per_s": 1 / min(seconds), "median_per_s": 1 / median(seconds), "cpu_ms": 1e3 * min(cpu_seconds)}


def utilisation(problem: Problem, turns: list[dict[str, Any]], peaks: list[dict[str, float]]) -> dict[str, float]:
    """Return operations [Gflop], peaks [Gflop/s] and shares of them; nothing where no peak was measured."""
    if not peaks:
        return {}
    by_clock, by_cpu = (max(peak[key] for peak in peaks) for key in ("by_clock", "by_cpu"))
    update = min(value for turn in turns for value in turn["update_seconds"])
    cpu = min(value for turn in turns for value in turn["cpu_seconds"])
    return {
        "gflop": problem.operations / 1e9,
        "best_update_s": update,
        "peak_gflop_per_s": by_clock / 1e9,
        "peak_gflop_per_cpu_s": by_cpu / 1e9,
        "share_by_clock": problem.operations / update / by_clock,
        "share_by_cpu": problem.operations / cpu / by_cpu,
    }


def line_of(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    start = f"{row['implementation']:<17} {row['critics']:>7} "
    if "unavailable" in row:
        return f"{start} {row['unavailable']}"
    return start + " ".join(f"{row[key]:>8{form}}" if key in row else f"{'-':>8}" for _, key, form in COLUMNS)


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": versions,
    }


def positive(text: str) -> int:
    """Return a whole number of 1 or more, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {value}")
    return value


def main(arguments: Sequence[str] | None = None) -> None:
    processors = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--critics", type=positive, nargs="+", default=[10, 2])
    parser.add_argument("--hidden", type=positive, nargs="+", default=Problem.hidden, help="widths of all networks")
    parser.add_argument("--batch", type=positive, default=Problem.batch, help="rows of each critic update")
    parser.add_argument("--updates", type=positive, default=Problem.updates, help="critic updates in an iteration")
    parser.add_argument("--rounds", type=positive, default=15)
    parser.add_argument("--iterations", type=positive, default=3, help="iterations in each turn")
    parser.add_argument("--threads", type=positive, default=min(2, processors))
    parser.add_argument("--only", nargs="+", choices=IMPLEMENTATIONS, help="implementations; all that can, by default")
    parser.add_argument("--cold", action="store_true", help="start with empty compiler caches")
    parser.add_argument("--json", type=Path, default=Path("runs/bench_update.json"))
    options = parser.parse_args(arguments)
    if options.threads > processors:
        parser.error(f"--threads: this process may use {processors} processors, got {options.threads}")
    if options.batch % 2:
        parser.error(f"--batch: half of the rows are demonstrations, so expected an even number, got {options.batch}")

    problems = [
        Problem(
            critics=critics,
            hidden=tuple(options.hidden),
            batch=options.batch,
            updates=options.updates,
            threads=options.threads,
        )
        for critics in options.critics
    ]
    if unable := set(options.only or ()).difference(*(capable(problem) for problem in problems)):
        parser.error(f"--only: {', '.join(sorted(unable))} cannot have that number of critics")

    facts = machine() | {"rounds": options.rounds, "iterations": options.iterations, "cold": options.cold}
    results = []
    print(HEADER)
    for problem in problems:
        names = [name for name in capable(problem) if options.only is None or name in options.only]
        for row in compare(problem, names, options.rounds, options.iterations, options.cold):
            results.append({**row, "problem": dataclasses.asdict(problem)})
            print(line_of(row), flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"run": facts, "results": results}, indent=1) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()

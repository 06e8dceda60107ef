"""One implementation in a process of its own, which bench_update.py tells what to do and when.

python update_worker.py NAME PROBLEM_AS_JSON STARTED

STARTED is the monotonic time at which this process was asked for. Commands come on standard input, one a line, and
each is answered by one line of JSON on standard output. The process keeps itself to as many processors as the problem
has threads: this is what XLA makes its threads by.
"""

import ctypes
import importlib
import json
import os
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from update_implementations import IMPLEMENTATIONS, Implementation
from update_problem import Problem, UnavailableError, check

INSTALL = "pip install -c constraints.txt -e '.[bench]'"
WARM_UP = 4
"""Iterations between the first and those that are timed: those that compile may do so again in their second."""


class Worker:
    """Answers to the commands; :meth:`start` comes first."""

    def __init__(self, name: str, problem: Problem, started: float) -> None:
        self._kind = IMPLEMENTATIONS[name]
        self._problem = problem
        self._started = started
        self._iterations = 0

    def start(self) -> dict[str, Any]:
        """Import, construct and do the first iterations; return the durations [s].

        Raises:
            UnavailableError: if a package is missing, or the machine cannot do it.
        """
        try:
            for package in self._kind.packages:
                importlib.import_module(package)
        except ModuleNotFoundError as error:
            raise UnavailableError(f"{error.name} is not installed: {INSTALL}") from error
        imported = time.monotonic()
        self._implementation: Implementation = self._kind.make(self._problem)
        constructed = time.monotonic()
        # What has been experienced is there before the first update: filling is not part of starting.
        self._implementation.fill(self._problem)
        filled = time.monotonic()
        self._iterate()
        first = time.monotonic()
        self._before = self._implementation.trained()
        for _ in range(WARM_UP):
            self._iterate()
        return {
            "import_s": imported - self._started,
            "first_s": constructed - imported + first - filled,
        }

    def turn(self, iterations: int) -> dict[str, Any]:
        """Do timed iterations; return for each the seconds, those of the update alone and of the processor."""
        columns = zip(*(self._iterate() for _ in range(iterations)), strict=True)
        return dict(zip(("seconds", "update_seconds", "cpu_seconds"), columns, strict=True))

    def _iterate(self) -> tuple[float, float, float]:
        start, cpu_start = time.perf_counter(), time.process_time()
        rows = self._implementation.sample()
        sampled = time.perf_counter()
        self._implementation.update(rows)
        end = time.perf_counter()
        self._iterations += 1
        return end - start, end - sampled, time.process_time() - cpu_start

    def peak(self, repetitions: int) -> dict[str, Any]:
        """Return the processor's own peak, the best of several; see :func:`native_peak`."""
        found = [native_peak(str(self._kind.precision), self._problem.threads) for _ in range(repetitions)]
        return dict(zip(("by_clock", "by_cpu"), map(max, *found), strict=True))

    def finish(self) -> dict[str, Any]:
        """Check that all was done; return memory [MB] and the optimisers' steps in each iteration."""
        resident = memory()
        return resident | check(self._problem, self._before, self._implementation.trained(), self._iterations)


def memory() -> dict[str, float]:
    """Return the resident memory of this process now and at most [MB]."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        key: int(lines[field].split()[0]) / 1024 for key, field in (("memory_mb", "VmRSS"), ("memory_peak_mb", "VmHWM"))
    }


def native_peak(precision: str, threads: int) -> tuple[float, float]:
    """Multiply-adds on registers: floating-point operations a second of the clock, and of one thread's time."""
    from robo_rl.agents.parts.native import library_path

    library = ctypes.CDLL(str(library_path()))
    library.robo_rl_saturate.restype = ctypes.c_double

    def saturate(_: int) -> tuple[float, float]:
        start = time.thread_time()
        done = float(library.robo_rl_saturate(precision == "bfloat16", ctypes.c_int64(500_000)))
        return done, time.thread_time() - start

    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        parts = list(pool.map(saturate, range(threads)))
        by_clock = sum(done for done, _ in parts) / (time.perf_counter() - start)
    return by_clock, max(done / seconds for done, seconds in parts)


def main() -> None:
    name, sizes, started = sys.argv[1:]
    problem = Problem.from_json(sizes)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: problem.threads])
    # Libraries may print on standard output: that goes with the messages, the answers alone through the pipe.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(name, problem, float(started))
    for line in sys.stdin:
        command, *arguments = line.split()
        try:
            answer = getattr(worker, command)(*(int(argument) for argument in arguments))
        except UnavailableError as error:
            answer = {"unavailable": str(error)}
        except Exception as error:
            traceback.print_exc()
            answer = {"unavailable": f"failed: {type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

"""Native updates in float32 and bfloat16, with and without AMX, and the share of its peak that their products reach.

python benchmarks/bench_precision.py [--threads 1] [--seconds 20] [--agents rlpd rlpd_published]

All are measured alternately in one process. An update consists of 20 critic updates and one of the actor. clock: median
time of an update; cpu: its least processor time, all threads together, which other work on the machine hardly touches.
speed: by processor time, relative to float32. The products are those of a layer in both directions and of its weights'
gradient, in one thread, with the conversion of operands and the copies around them; peak: the multiply-adds on
registers or tiles that the processor achieves.
"""

import argparse
import ctypes
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch

from robo_rl.agents.parts import native
from robo_rl.agents.parts.native.library import load
from robo_rl.agents.sac import native_update
from robo_rl.agents.sac.config import SACConfig
from robo_rl.agents.sac.precision import UpdateLoop
from robo_rl.core import native_library

AGENTS: dict[str, dict[str, Any]] = {
    "rlpd": {},
    "rlpd_published": {"ensemble_size": 10, "target_subset": 1, "hidden": (256, 256, 256), "batch_size": 256},
}
ROWS, WIDTH = 4096, 256
"""Rows of the measured products, which pass in blocks as in an update, and width of inputs and outputs."""
SATURATING_STEPS = 500_000


class Kind(NamedTuple):
    """A way of computing products: its precision, and the library that does it."""

    precision: str
    library: ctypes.CDLL


def kinds() -> dict[str, Kind]:
    """Return those that this machine is capable of, by name."""
    path, instructions = native.library_path(), native.bfloat16_instructions()
    result = {"float32": Kind("float32", load(path))}
    if instructions == "AMX":
        source = Path(native.__file__).with_name("library.cpp")
        result["bfloat16 by AVX512_BF16"] = Kind("bfloat16", load(native_library(source, ("-mno-amx-bf16",))))
    if instructions:
        result[f"bfloat16 by {instructions}"] = Kind("bfloat16", load(path))
    return result


def measure(calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, tuple[float, float]]:
    """Return the median time and the least processor time [s] of each call, made alternately for some ``seconds``."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, call in calls.items():
            start, cpu_start = time.perf_counter(), time.process_time()
            call()
            times[name].append((time.perf_counter() - start, time.process_time() - cpu_start))
    return {name: (median(clock for clock, _ in pairs), min(cpu for _, cpu in pairs)) for name, pairs in times.items()}


def updates(agent: str, seconds: float) -> dict[str, tuple[float, float]]:
    """Return the times of an update of ``agent`` by each kind."""
    loops = {}
    for name, kind in kinds().items():
        with patch.object(native_update, "library", lambda kind=kind: kind.library):
            loops[name] = UpdateLoop(SACConfig(precision=kind.precision, update_to_data=20, **AGENTS[agent]))
    return measure(loops, seconds)


def product_shares(seconds: float) -> dict[str, tuple[float, float]]:
    """Return the rate of a layer's three products, with the conversion of their operands, and the peak [flop/s]."""
    generator = np.random.default_rng(0)
    shapes = ((ROWS, WIDTH), (WIDTH, WIDTH), (ROWS, WIDTH), (ROWS, WIDTH), (ROWS, WIDTH), (WIDTH, WIDTH))
    arrays = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    calls: dict[str, Callable[[], object]] = {}
    operations = {}
    for name, (precision, library) in kinds().items():
        bfloat16, steps = ctypes.c_int(precision == "bfloat16"), ctypes.c_int64(SATURATING_STEPS)
        calls[name] = partial(library.robo_rl_dense_products, bfloat16, ROWS, WIDTH, WIDTH, *pointers)
        calls[f"{name}, peak"] = partial(library.robo_rl_saturate, bfloat16, steps)
        operations[name] = 6.0 * ROWS * WIDTH * WIDTH
        operations[f"{name}, peak"] = library.robo_rl_saturate(bfloat16, steps)
    rates = {name: operations[name] / cpu for name, (_, cpu) in measure(calls, seconds).items()}
    return {name: (rates[name], rates[f"{name}, peak"]) for name in kinds()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each agent, and for the products")
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{'':<24} {'products Gflop/s':>17} {'peak':>7} {'share':>6}")
    for name, (rate, peak) in product_shares(options.seconds).items():
        print(f"{name:<24} {rate / 1e9:>17.0f} {peak / 1e9:>7.0f} {rate / peak:>6.0%}")
    for agent in options.agents:
        print(f"{agent + f', {options.threads} threads':<24} {'clock ms':>17} {'cpu ms':>7} {'speed':>6}")
        times = updates(agent, options.seconds)
        for name, (clock, cpu) in times.items():
            print(f"{name:<24} {1e3 * clock:>17.1f} {1e3 * cpu:>7.1f} {times['float32'][1] / cpu:>6.2f}")


if __name__ == "__main__":
    main()

"""Full updates a second: native float32 and bfloat16, torch eager and torch.compile, side by side.

python tests/benchmarks/bench_update.py [--critics 10 2] [--rounds 15] [--threads N] [--no-compile] [--json FILE]

An update is what one environment step pays for: 20 critic steps of 256 rows, one step of the actor and one of the
temperature; observation 40, action 7, networks of 2 x 256. All implementations are timed in turns within one run, and
so is the processor's own peak (multiply-adds on registers, on as many threads): ratios do not depend on what else the
machine does, or less.

best, median: updates a second of the clock. cpu ms: least processor time of an update, all threads together, which
other work on the machine hardly touches. first s: construction and the first update, compilation included where it
was not cached. share: floating-point operations of the matrix products alone, over the peak of that precision; by the
clock (best update, best peak), and by processor time.
"""

import argparse
import ctypes
import dataclasses
import itertools
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import torch

from robo_rl.agents.sac.config import SACConfig
from robo_rl.agents.sac.native import NativeUpdate, available
from robo_rl.agents.sac.native.build import library_path
from robo_rl.agents.sac.networks import initialise_network
from robo_rl.agents.sac.update import Minibatches, TorchUpdate, draw_noise

OBSERVATION, ACTION = 40, 7


def operations(config: SACConfig) -> float:
    """Floating-point operations of the matrix products of one update; nothing counted that a plain one would not do."""

    def forward(inputs: int, outputs: int) -> float:
        sizes = [inputs, *config.hidden, outputs]
        return sum(2.0 * a * b for a, b in itertools.pairwise(sizes))

    def first(inputs: int) -> float:
        return 2.0 * inputs * config.hidden[0]

    critic_inputs = OBSERVATION + ACTION
    critic, actor = forward(critic_inputs, 1), forward(OBSERVATION, 2 * ACTION)
    # A gradient costs twice the forward pass, less the input gradient of the first layer.
    critic_step = config.target_subset * critic + config.ensemble_size * (3 * critic - first(critic_inputs))
    next_action = actor
    actor_step = 3 * actor - first(OBSERVATION)
    actor_step += config.ensemble_size * (2 * critic - first(critic_inputs) + first(ACTION))
    return config.batch_size * (config.update_to_data * (critic_step + next_action) + actor_step)


def peak(precision: str, threads: int) -> tuple[float, float]:
    """Multiply-adds on registers: floating-point operations a second of the clock, and of one thread's time."""
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


def make_state(config: SACConfig) -> tuple[dict[str, torch.Tensor], ...]:
    generator = torch.Generator().manual_seed(0)
    critic_sizes = [OBSERVATION + ACTION, *config.hidden, 1]
    critic = initialise_network(
        "critic", critic_sizes, generator, layer_norm=True, output_gain=1.0, ensemble=config.ensemble_size
    )
    actor_sizes = [OBSERVATION, *config.hidden, 2 * ACTION]
    actor = initialise_network("actor", actor_sizes, generator, layer_norm=False, output_gain=0.01)
    trained = {**critic, **actor, "temperature/log_alpha": torch.tensor(-2.3)}
    targets = {f"target_{name}": value.clone() for name, value in critic.items()}
    moments = [{name: torch.zeros_like(value) for name, value in trained.items()} for _ in range(2)]
    return {**trained, **targets}, *moments


def make_batch(config: SACConfig) -> Minibatches:
    generator = torch.Generator().manual_seed(1)
    lead = (config.update_to_data, config.batch_size)
    return Minibatches(
        observation=torch.randn(*lead, OBSERVATION, generator=generator),
        action=torch.rand(*lead, ACTION, generator=generator) * 2 - 1,
        reward=torch.rand(lead, generator=generator),
        discount=torch.full(lead, 0.99),
        next_observation=torch.randn(*lead, OBSERVATION, generator=generator),
        demonstration=(torch.arange(config.batch_size) % 2).float().expand(lead).contiguous(),
        proposed_action=torch.rand(*lead, ACTION, generator=generator) * 2 - 1,
    )


def contestants(config: SACConfig, compiled: bool) -> dict[str, Callable[[], Any]]:
    """Constructors of all updates that this machine can do."""
    found: dict[str, Callable[[], Any]] = {}
    for precision in ("float32", "bfloat16"):
        works, why = available(precision)
        if works:
            native = dataclasses.replace(config, precision=precision)
            found[f"native {precision}"] = lambda native=native: NativeUpdate(native, *make_state(native))
        else:
            print(f"native {precision} cannot be had: {why}")
    found["torch eager"] = lambda: TorchUpdate(config, *make_state(config))
    if compiled:
        found["torch compile"] = lambda: TorchUpdate(config, *make_state(config), compiled=True)
    return found


def compare(critics: int, threads: int, rounds: int, compiled: bool) -> list[dict[str, Any]]:
    config = SACConfig(ensemble_size=critics, threads=threads)
    batch, noise = make_batch(config), draw_noise(config, ACTION, torch.Generator().manual_seed(2))
    updates, firsts = {}, {}
    for name, construct in contestants(config, compiled).items():
        start = time.perf_counter()
        updates[name] = construct()
        updates[name](batch, noise, 0)
        firsts[name] = time.perf_counter() - start

    times: dict[str, list[float]] = {name: [] for name in updates}
    cpu_times: dict[str, list[float]] = {name: [] for name in updates}
    peaks: dict[str, list[tuple[float, float]]] = {}
    for index in range(1, rounds + 1):
        for name, update in updates.items():
            start, cpu_start = time.perf_counter(), time.process_time()
            update(batch, noise, index)
            cpu_times[name].append(time.process_time() - cpu_start)
            times[name].append(time.perf_counter() - start)
        for precision in ("float32", "bfloat16"):
            if f"native {precision}" in updates:
                peaks.setdefault(precision, []).extend(peak(precision, threads) for _ in range(5))

    count = operations(config)
    rows = []
    for name, seconds in times.items():
        precision = "bfloat16" if "bfloat16" in name else "float32"
        by_clock, by_cpu = (max(column) for column in zip(*peaks[precision], strict=True))
        rows.append(
            {
                "implementation": name,
                "critics": critics,
                "threads": threads,
                "best_per_s": 1 / min(seconds),
                "median_per_s": 1 / median(seconds),
                "cpu_s": min(cpu_times[name]),
                "first_s": firsts[name],
                "gflop": count / 1e9,
                "peak_gflop_per_s": by_clock / 1e9,
                "peak_gflop_per_cpu_s": by_cpu / 1e9,
                "share_by_clock": count / min(seconds) / by_clock,
                "share_by_cpu": count / min(cpu_times[name]) / by_cpu,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--critics", type=int, nargs="+", default=[10, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out: it takes a minute to start")
    parser.add_argument("--json", type=Path, default=Path("runs/bench_update.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    results = []
    print("implementation    critics   best/s  median/s   cpu ms  first s  share by clock  by cpu")
    for critics in arguments.critics:
        for row in compare(critics, arguments.threads, arguments.rounds, not arguments.no_compile):
            results.append(row)
            print(
                f"{row['implementation']:<17} {critics:>7} {row['best_per_s']:>8.2f} {row['median_per_s']:>9.2f} "
                f"{row['cpu_s'] * 1e3:>8.1f} {row['first_s']:>8.2f} {row['share_by_clock']:>15.0%} "
                f"{row['share_by_cpu']:>7.0%}"
            )
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps({"torch": torch.__version__, "results": results}, indent=1) + "\n")
    print(f"written to {arguments.json}")


if __name__ == "__main__":
    main()

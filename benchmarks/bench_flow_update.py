"""Updates a second of Q-chunking and flow Q-learning: in C++ beside PyTorch.

    python benchmarks/bench_flow_update.py [--threads 1] [--rounds 20] [--json FILE]

An update is a step of all networks on one minibatch, with the default options of the agents. Observations have 30
elements and chunks four actions of four. The rows are always the same; drawing them from a replay is not included. All
implementations have turns in each round of one process. /torch: median of the ratios within a round. cpu ms: least
processor time of an update, all threads together. peak: operations of the matrix products over what the processor could
do in the best update: multiply-adds on registers in float32.
"""

import itertools
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from bench_update import machine
from made_up import spec_of
from table_runs import make_parser, write_json
from update_worker import native_peak

from robo_rl.agents.fql import FQLConfig, make_fql
from robo_rl.agents.parts.flow import TIME_OCTAVES
from robo_rl.agents.parts.native import available
from robo_rl.agents.parts.native_flow_config import NativeFlowConfig
from robo_rl.agents.qc import QCConfig, make_qc
from robo_rl.core import ArraySpec, Batch

OBSERVATION, ACTION = 30, 4
AGENTS: dict[str, tuple[Callable[..., Any], type[NativeFlowConfig], dict[str, Any]]] = {
    "qc": (make_qc, QCConfig, {"selection_starts": 0}),
    "fql": (make_fql, FQLConfig, {}),
}
IMPLEMENTATIONS = {
    "native float32": {"implementation": "native", "precision": "float32"},
    "native bfloat16": {"implementation": "native", "precision": "bfloat16"},
    "torch": {"implementation": "torch"},
}
PEAK = "float32"
HEADER = f"{'agent':<5} {'implementation':<16} {'best/s':>8} {'median/s':>8} {'/torch':>8} {'cpu ms':>8} {'peak':>8}"


def operations(config: NativeFlowConfig, observation: int, chunk: int) -> float:
    """Return the floating-point operations of the matrix products of an update that a plain program needs.

    A gradient costs twice the forward pass, less the gradient of the input of the first layer.
    """

    def forward(inputs: int, outputs: int) -> float:
        return sum(2.0 * a * b for a, b in itertools.pairwise([inputs, *config.hidden, outputs]))

    def first(inputs: int) -> float:
        return 2.0 * inputs * config.hidden[0]

    pair, moment = observation + chunk, observation + chunk + 1 + 2 * TIME_OCTAVES
    flow, actor, critics = forward(moment, chunk), forward(pair, chunk), config.ensemble_size * forward(pair, 1)
    first_of_critics = config.ensemble_size * first(pair)
    per_row = critics + 3 * critics - first_of_critics + 3 * flow - first(moment)
    if config.candidates:
        return config.batch_size * (per_row + config.candidates * (config.flow_steps * flow + critics))
    climbed = 2 * critics - first_of_critics + config.ensemble_size * first(chunk)
    # The actor decides for the target and is then distilled.
    return config.batch_size * (per_row + actor + config.flow_steps * flow + 3 * actor - first(pair) + climbed)


def made_up_batch(count: int, chunk: int, observation: int = OBSERVATION) -> Batch:
    """Return rows of no task, all of demonstrations."""
    rng = np.random.default_rng(0)
    states = rng.standard_normal((2, count, observation), np.float32)
    action = rng.uniform(-1, 1, (count, chunk)).astype(np.float32)
    return {
        "observation/state": states[0],
        "next_observation/state": states[1],
        "action": action,
        "proposed_action": action,
        "reward": rng.random(count, np.float32),
        "discount": np.full(count, 0.96, np.float32),
        "demonstration": np.ones(count, np.float32),
        "online_example": np.zeros(count, np.float32),
    }


def measure(agent: str, rounds: int, threads: int) -> list[dict[str, Any]]:
    """Return a row for each implementation that works here."""
    make, make_config, options = AGENTS[agent]
    config, spec = make_config(), spec_of({"state": ArraySpec((OBSERVATION,))}, ACTION)
    batch = made_up_batch(config.batch_size, ACTION * config.action_chunk)
    agents = {
        name: make(spec=spec, seed=0, **options, **fields)
        for name, fields in IMPLEMENTATIONS.items()
        if fields["implementation"] == "torch" or available(fields["precision"])[0]
    }
    seconds: dict[str, list[float]] = {name: [] for name in agents}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in agents}
    peak = 0.0
    for number in range(1 + rounds):
        for name, made in agents.items():
            start, cpu_start = time.perf_counter(), time.process_time()
            made.update(batch)
            if number:  # the first allocates memory
                seconds[name].append(time.perf_counter() - start)
                cpu_seconds[name].append(time.process_time() - cpu_start)
        if available()[0]:
            peak = max(peak, native_peak(PEAK, threads)[0])
    done = operations(config, OBSERVATION, ACTION * config.action_chunk)
    rows = []
    for name, times in seconds.items():
        row = {"agent": agent, "implementation": name, "best_per_s": 1 / min(times), "median_per_s": 1 / median(times)}
        ratios = [slow / fast for slow, fast in zip(seconds["torch"], times, strict=True)]
        row |= {"over_torch": median(ratios), "cpu_ms": 1e3 * min(cpu_seconds[name]), "gflop": done / 1e9}
        if peak:
            row |= {"peak_gflop_per_s": peak / 1e9, "share_of_peak": done / min(times) / peak}
        rows.append(row)
    return rows


def main() -> None:
    parser = make_parser(__doc__, "--json")
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = []
    print(HEADER)
    for agent in options.agents:
        for row in measure(agent, options.rounds, options.threads):
            results.append(row)
            share = f"{row['share_of_peak']:>8.0%}" if "share_of_peak" in row else f"{'-':>8}"
            figures = " ".join(f"{row[key]:>8.1f}" for key in ("best_per_s", "median_per_s", "over_torch", "cpu_ms"))
            print(f"{agent:<5} {row['implementation']:<16} {figures} {share}", flush=True)
    facts = machine() | {"rounds": options.rounds, "threads": options.threads}
    write_json(options.json, {"run": facts, "results": results})


if __name__ == "__main__":
    main()

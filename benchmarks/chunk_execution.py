"""Success of chunked policies with a decision that takes time, by how their chunks are executed.

    python benchmarks/chunk_execution.py runs/chunks_*

Evaluates the policies of runs in simulation, each from the same start states: without latency, a chunk executed to its
end, or replaced by the next one before that; with latency, the robot waiting for each chunk; and with it, the next one
computed meanwhile, with and without blending, or to continue the current one, for which the runs must be of agent=flow
(otherwise leave this way out by --ways). Takes some minutes of one core for each run and 100 episodes. Writes
docs/measured/results/chunk_execution.json.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from table_runs import RESULTS, make_parser, write_json

from robo_rl.app import acting_config, evaluated_policy


def ways(latency: float) -> dict[str, dict[str, Any]]:
    """Return the compared ways of execution by name."""
    return {
        "no latency": {"latency": 0.0},
        "no latency, asynchronous": {"asynchronous": True, "latency": 0.0},
        "waiting": {"latency": latency},
        "asynchronous, none": {"asynchronous": True, "latency": latency, "blending": "none"},
        "asynchronous, linear": {"asynchronous": True, "latency": latency},
        "asynchronous, exponential": {"asynchronous": True, "latency": latency, "blending": "exponential"},
        "asynchronous, inpainting": {"asynchronous": True, "latency": latency, "blending": "inpainting"},
    }


def measure(run: Path, name: str, way: dict[str, Any], episodes: int, seed: int) -> dict[str, Any]:
    """Return the result of one policy with one way of execution."""
    config = acting_config(run, on_robot=False)
    with evaluated_policy(run, config, checkpoint="best", episodes=episodes, seed=seed, execution=way) as evaluated:
        result = evaluated.measure(evaluated.trained.policy)
    report, rate = result.execution, result.success_rate
    assert report is not None and rate is not None
    print(f"{result.task:12} {name:26} {100 * rate.value:5.0f} %", *report.lines(), sep="; ", flush=True)
    common = {"task": result.task, "way": name, "episodes": episodes, "seed": seed}
    return common | {"success_rate": asdict(rate), "execution": report.to_json()}


def main() -> None:
    """Measure all runs and write the rows."""
    parser = make_parser(__doc__, "--json", RESULTS / "chunk_execution.json")
    parser.add_argument("runs", nargs="+", type=Path, help="run folders of chunked policies")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1000, help="seed of the start states")
    parser.add_argument("--latency", type=float, default=0.15, help="time of a decision [s]")
    parser.add_argument("--ways", nargs="+", help="names of the compared ways of execution; by default all")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for run in options.runs:
        for name, way in ways(options.latency).items():
            if options.ways is None or name in options.ways:
                rows.append(measure(run, name, way, options.episodes, options.seed))
                write_json(options.json, {"latency": options.latency, "rows": rows})


if __name__ == "__main__":
    main()

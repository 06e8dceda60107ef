"""Time per decision and size of policies as ONNX files and C headers, beside PyTorch, on one core.

    python benchmarks/bench_deployment.py [--task pick_cube] [--observations 500] [--output FILE]

The networks have the default sizes of each agent for the task, and random parameters: the time depends on their values
only in so far as C skips the inputs of a layer that are 0. Times are medians of single decisions, with the conversion
of observations in Python for PyTorch and ONNX Runtime; those of C are a loop over all observations divided by their
number. The process keeps to one core.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from table_runs import composed, make_parser, write_json

from robo_rl import __version__
from robo_rl.app import build_agent, build_backend
from robo_rl.core import generator
from robo_rl.deployment import PolicyDescription, write_policy
from robo_rl.deployment.c_policy import CPolicy, c_compiler
from robo_rl.deployment.verification import median_time

AGENTS = ("rlpd", "bc", "xqc", "simbav2", "fql", "flow", "drq")
IMAGES = ["task.observation.cameras=[front,wrist]", "task.observation.width=64", "task.observation.height=64"]
FORMATS = {"onnx": "policy.onnx", "c": "policy.h"}


def main() -> None:
    """Measure, and print a JSON object."""
    parser = make_parser(__doc__, "--output")
    parser.add_argument("--task", default="pick_cube")
    parser.add_argument("--observations", type=int, default=500)
    options = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    rows = []
    for agent in AGENTS:
        rows.append(measure(agent, options.task, options.observations))
        print(rows[-1], flush=True)
    write_json(options.output, {"robo_rl": __version__, "task": options.task, "rows": rows})


def measure(name: str, task: str, observations: int) -> dict[str, Any]:
    """Return times [us], sizes [kB] and differences of an agent's policy."""
    words = [f"task={task}", f"agent={name}", *(IMAGES if name == "drq" else [])]
    config = composed("train", words)
    backend = build_backend(config)
    row: dict[str, Any] = {"agent": name}
    for kind in ("onnx",) if name == "drq" else FORMATS:
        agent: Any = build_agent(config.agent, backend.spec, 0)
        decision = agent.decision()
        rng = generator(0, "statistics")
        drawn = [decision.example(rng) for _ in range(100)]
        agent.fit_normaliser({f"observation/{key}": np.stack([each[key] for each in drawn]) for key in drawn[0]})
        description = PolicyDescription(
            spec=backend.spec,
            agent=name,
            step=0,
            action_chunk=agent.config.action_chunk,
            observed=decision.observed,
            noise_size=decision.noise_size,
            noise_seed=decision.noise_seed,
            version=__version__,
        )
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / FORMATS[kind]
            outcome = write_policy(file, agent, decision, description, observations, 0)
            assert outcome is not None
            row |= {f"{kind}_us": outcome.file_microseconds, f"{kind}_kb": file.stat().st_size / 1000}
            row |= {"torch_us": outcome.torch_microseconds, f"{kind}_difference": outcome.difference}
            if kind == "c":
                row["c_native_us"] = native_time(file, description, decision, observations)
        row["chunk"] = description.action_chunk
    backend.close()
    return row


def native_time(file: Path, description: PolicyDescription, decision: Any, observations: int) -> float:
    """Return the time per decision of a header compiled for this processor [us]."""
    compiler = c_compiler()
    assert compiler is not None
    policy = CPolicy(file, description, compiler, ("-march=native",))
    rng = np.random.default_rng(0)
    drawn = [decision.example(rng) for _ in range(observations)]
    stacked = {key: np.stack([each[key] for each in drawn]) for key in description.observed}
    noise = rng.standard_normal((observations, description.noise_size)).astype(np.float32)
    return 1e6 * median_time([lambda: policy.decide_all(stacked, noise)] * 5) / observations


if __name__ == "__main__":
    main()

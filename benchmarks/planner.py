"""Planning with the shaped rewards of tasks: success, length and decision time of planned episodes.

    python benchmarks/planner.py
    python benchmarks/planner.py --tasks reach push_cube --episodes 20

Writes planner.json in docs/measured/results: for each task the outcome of every episode, the processor time of a
decision, and the options. Tasks in the file that are not measured again keep their rows.
"""

import time
from contextlib import closing
from typing import Any

import numpy as np
from table_runs import RESULTS, composed, make_parser, with_earlier, write_json

from robo_rl.app import build_backend, with_source
from robo_rl.core import section
from robo_rl.evaluation.statistics import wilson_interval

TASKS = ("reach", "push_cube", "open_door", "pick_cube")


def main() -> None:
    parser = make_parser(__doc__, "--output", RESULTS / "planner.json")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for task in options.tasks:
        row = measured(task, options.episodes, options.seed)
        write_json(options.output, with_earlier(options.output, [row], ("task",)))
        low, high = row["success"]["low"], row["success"]["high"]
        print(
            f"{task}: success {100 * row['success']['value']:.0f} % ({100 * low:.0f} to {100 * high:.0f} %), "
            f"{row['median_steps']} steps, {row['decision_seconds']:.2f} s a decision",
            flush=True,
        )


def measured(task: str, episodes: int, seed: int) -> dict[str, Any]:
    """Return the figures of planned episodes of a task."""
    config = composed("train", [f"task={task}"])
    with closing(with_source(build_backend(config), config, "planner")) as backend:
        expert = backend.expert(seed)
        lengths, successes, seconds, decisions = [], [], 0.0, 0
        for number in range(episodes):
            step, length = backend.reset(1000 * (seed + 1) + number), 0
            expert.reset()
            while not (step.terminated or step.truncated):
                began = time.process_time()
                action = np.asarray(expert.act(step.observation), np.float32)
                seconds, decisions = seconds + time.process_time() - began, decisions + 1
                step, length = backend.step(action), length + 1
            lengths.append(length)
            successes.append(bool(step.success))
    low, high = wilson_interval(sum(successes), episodes)
    settings = section(config, "planner")
    return {
        "task": task,
        "success": {"value": sum(successes) / episodes, "low": low, "high": high},
        "median_steps": int(np.median([n for n, solved in zip(lengths, successes, strict=True) if solved] or [0])),
        "decision_seconds": seconds / decisions,
        "steps": lengths,
        "successes": successes,
        "seed": seed,
        "options": {
            name: getattr(settings, name) for name in ("samples", "iterations", "horizon", "knots", "deviation")
        },
    }


if __name__ == "__main__":
    main()

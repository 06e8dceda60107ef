"""A task of three stages: with the state of its machine and counterfactual rows, with the state alone, and without it.

The end effector passes a gate on its left, then one on its right, then reaches a goal beyond the left gate, where it
must not be before (examples/stages/gates.yaml). Runs may be stopped and started again: finished ones are kept,
unfinished ones are resumed.

    python benchmarks/stages.py
    python benchmarks/stages.py --settings counterfactual machine --seeds 0 1 2 --overrides runtime.threads=1

Writes stages.json in docs/measured/results (every run: its summary, and evaluations with the share of episodes that
reached each state; those of other settings and seeds stay) and the table in stages.md.
"""

import argparse
import json

from learning_table import is_solved, row
from table_runs import (
    ENDED,
    ROOT,
    evaluations,
    metrics,
    status,
    table_parser,
    train_or_resume,
    with_earlier,
    write_json,
)

NAME = "stages"
TASK = [
    "task=reach",
    f"task.machine={ROOT / 'examples' / 'stages' / 'gates.yaml'}",
    "task.max_episode_steps=50",
    "task.observation.object=false",
    "reward=machine",
    "demonstrations.episodes=0",
    "agent=rlpd_without_demonstrations",
    "agent.n_step=3",
]
"""The task and the agent of all runs."""
SETTINGS = {
    "counterfactual": ["run.counterfactual=0.5"],
    "machine": [],
    "unobserved": ["agent.observation_keys=[state]"],
}
"""Options by setting: with counterfactual rows, without them, and with a policy that does not observe the state."""
ENV_STEPS = 15_000
KEYS = ("setting", "seed")
"""Fields that identify a run."""


def main() -> None:
    parser = table_parser(__doc__, NAME)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--env-steps", type=int, default=ENV_STEPS, help="most environment steps of a run")
    parser.add_argument("--only-summarise", action="store_true", help="write the table from the runs that are there")
    options = parser.parse_args()
    for seed in [] if options.only_summarise else options.seeds:
        for setting in options.settings:
            train(setting, seed, options)
            write(options)
    write(options)


def train(setting: str, seed: int, options: argparse.Namespace) -> None:
    """Make or finish one run."""
    folder = options.runs / f"{setting}_{seed}"
    if status(folder) in ENDED:
        return
    common = [
        f"run.env_steps={options.env_steps}",
        "run.evaluation_interval=500",
        "run.evaluation_episodes=50",
        "run.stop_at_success_rate=0.98",
        "run.video_episodes=0",
    ]
    train_or_resume(folder, common, [*TASK, *SETTINGS[setting], f"seed={seed}", *options.overrides])


def write(options: argparse.Namespace) -> None:
    """Write the results of all finished runs."""
    runs = []
    for setting in SETTINGS:
        for folder in sorted(options.runs.glob(f"{setting}_[0-9]*")):
            if status(folder) not in ENDED:
                continue
            lines = metrics(folder)
            summary = json.loads((folder / "summary.json").read_text()) | {"setting": setting}
            last = next(line for line in reversed(lines) if line["kind"] == "evaluation")
            summary["evaluations"] = evaluations(lines, *(key for key in last if key.startswith("reached/")))
            solved = next((line for line in summary["evaluations"] if is_solved("reach", line)), {})
            summary["steps_to_solved"], summary["wall_seconds_to_solved"] = (
                solved.get("step"),
                solved.get("wall_seconds"),
            )
            runs.append(summary)
    runs = with_earlier(options.results / f"{NAME}.json", runs, KEYS)
    runs.sort(key=lambda run: (list(SETTINGS).index(run["setting"]), run["seed"]))
    write_json(options.results / f"{NAME}.json", runs)
    (options.results / f"{NAME}.md").write_text(table(runs))


def table(runs: list[dict]) -> str:
    """Return the table in Markdown."""
    lines = [
        "| task | setting | seeds | steps to 95 % | robot-minutes | wall-clock minutes | success at the end |",
        "|---|---|---|---|---|---|---|",
    ]
    groups = {setting: [run for run in runs if run["setting"] == setting] for setting in SETTINGS}
    lines += [row("left gate, right gate, goal", setting, group) for setting, group in groups.items() if group]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

"""A peg with half the clearance, learned from a run with the whole one and from scratch.

Each seed has a run of peg_insert with 1 mm of clearance (``base``), one with 0.5 mm that starts from it (``started``)
and one with 0.5 mm from scratch (``scratch``), the last two with the same demonstrations. Runs may be stopped and
started again: finished ones are kept, unfinished ones are resumed.

    python benchmarks/warm_start.py
    python benchmarks/warm_start.py --settings base started --seeds 0 1 2 --overrides runtime.threads=1

Writes warm_start.json in docs/measured/results (every run: its summary and evaluations; those of other settings and
seeds stay) and the table in warm_start.md.
"""

import argparse
import json

from learning_table import is_solved, row
from table_runs import (
    ENDED,
    evaluations,
    metrics,
    status,
    table_parser,
    train_or_resume,
    with_earlier,
    write_json,
)

NAME = "warm_start"
TASK = "peg_insert"
HALF = "task.clearance=0.0005"
SETTINGS = {
    "base": [],
    "started": [HALF, "agent.actor_delay=500"],
    "scratch": [HALF],
}
"""Options by setting. ``started`` starts from the run of ``base`` with the same seed."""
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
        "run.evaluation_episodes=100",
        "run.stop_at_success_rate=0.97",
        "run.video_episodes=0",
    ]
    first = [f"task={TASK}", f"seed={seed}", *SETTINGS[setting], *options.overrides]
    if setting == "started":
        first.append(f"start.run={options.runs / f'base_{seed}'}")
    train_or_resume(folder, common, first)


def write(options: argparse.Namespace) -> None:
    """Write the results of all finished runs."""
    runs = []
    for setting in SETTINGS:
        for folder in sorted(options.runs.glob(f"{setting}_[0-9]*")):
            if status(folder) not in ENDED:
                continue
            summary = json.loads((folder / "summary.json").read_text()) | {"setting": setting}
            summary["evaluations"] = evaluations(metrics(folder))
            solved = next((line for line in summary["evaluations"] if is_solved(TASK, line)), {})
            summary["steps_to_solved"] = solved.get("step")
            summary["wall_seconds_to_solved"] = solved.get("wall_seconds")
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
    lines += [row(TASK, setting, group) for setting, group in groups.items() if group]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

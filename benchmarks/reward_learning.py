"""Policies trained without the task's reward, each from one reward module; success is judged by physics alone.

Takes five hours of one core; it may be stopped and started again: finished runs are kept, unfinished ones are resumed.

    python benchmarks/reward_learning.py
    python benchmarks/reward_learning.py --rows reach_preferences open_door_transport --seeds 0

No reward of the task reaches the learner but through the module: the reward is the module's term alone, and an episode
ends at its time limit, never at a success. How long a run goes on is decided by physics: it ends at the first
evaluation of 20 episodes with 95 % of success. Evaluations count an episode whose last state is a success. Beside each
row stands its control: the same with the module's weight 0; where the module knows the task's success, that alone.

Writes docs/measured/results/reward_learning.json (every run: its summary and evaluations; those of other rows and seeds
stay) and the table in reward_learning.md.
"""

import argparse
import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from clip_annotator import annotator
from learning_table import FROM_EXPERT
from reward_options import COLLECTED, EXPLORING_SINGLE
from reward_rows import ROWS, Row
from table_runs import (
    ENDED,
    evaluations,
    metrics,
    robo_rl,
    status,
    table_parser,
    train_or_resume,
    with_earlier,
    write_json,
)

from robo_rl.evaluation.statistics import bootstrap_interval, interquartile_mean
from robo_rl.replay import EpisodeStore

NAME = "reward_learning"


def main() -> None:
    parser = table_parser(__doc__, NAME)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--no-controls", action="store_true", help="train with the modules alone")
    parser.add_argument("--only-summarise", action="store_true", help="write the table from the runs that are there")
    options = parser.parse_args()
    for name in [] if options.only_summarise else options.rows:
        for seed in options.seeds:
            train(name, seed, options, control=False)
            if ROWS[name].term is not None and ROWS[name].control is None and not options.no_controls:
                train(name, seed, options, control=True)
            write(options)
    write(options)


def folder_of(runs: Path, name: str, seed: int, control: bool) -> Path:
    """Return the folder of a run."""
    return runs / f"{name}{'_control' if control else ''}_{seed}"


def train(name: str, seed: int, options: argparse.Namespace, *, control: bool) -> None:
    """Make or finish one run."""
    row, folder = ROWS[name], folder_of(options.runs, name, seed, control)
    if status(folder) in ENDED:
        return
    common = ["run.evaluation_interval=1000", "run.evaluation_episodes=20", "run.stop_at_success_rate=0.95"]
    first = [f"task={row.task}", "task.terminate_on_success=false", f"seed={seed}", FROM_EXPERT, *row.overrides]
    first += [f"run.env_steps={row.steps}", "run.video_episodes=0", "runtime.threads=1"]
    if row.data:
        first.append(f"demonstrations.path={collect(row, seed, options.runs)}")
    if row.reference:
        first.append(f"intervention.reference={reference(row, options.runs)}")
    if control:
        first += [f"++reward.terms.{row.term}.weight=0", "reward.offset=0", *row.instead]
    with nullcontext() if row.annotator is None else annotator() as url:
        answering = [] if url is None else [f"reward.modules.{row.annotator}.endpoint.url={url}"]
        train_or_resume(folder, common, first, [*answering, *options.overrides])


def collect(row: Row, seed: int, runs: Path) -> Path:
    """Return a data set of episodes, good and bad: a policy cloned from 3 demonstrations, with noise."""
    policy, path = runs / f"{row.task}_cloned_{seed}", runs / f"{row.task}_data_{seed}"
    if not path.exists():
        cloning = ("agent=bc", "agent.pretrain_steps=500", "demonstrations.episodes=3", "run.env_steps=0")
        chosen = (f"task={row.task}", "task.terminate_on_success=false", f"seed={seed}", "run.video_episodes=0")
        ends = (f"run.dir={policy}", "run.overwrite=true", "runtime.threads=1")
        robo_rl("train", FROM_EXPERT, *chosen, *cloning, *ends)
        robo_rl("collect", f"policy={policy}", f"output={path}", f"seed={seed}", f"episodes={COLLECTED}", "noise=0.5")
    return path


def reference(row: Row, runs: Path) -> Path:
    """Return the run of an agent that learned the task from its reward and 20 demonstrations.

    It goes on learning when it succeeds: by its values it is judged what an action wastes.
    """
    folder = runs / f"{row.task}_reference"
    if not (folder / "summary.json").exists():
        chosen = (f"task={row.task}", "task.terminate_on_success=false", "seed=100", "agent.precision=bfloat16")
        ends = ("run.env_steps=3000", "run.video_episodes=0", "runtime.threads=1", f"run.dir={folder}")
        robo_rl("train", FROM_EXPERT, *chosen, *EXPLORING_SINGLE, *ends, "run.overwrite=true")
    return folder


def write(options: argparse.Namespace) -> None:
    """Write the results of all finished runs."""
    runs = []
    for name, row in ROWS.items():
        for control in (False, True):
            for folder in sorted(options.runs.glob(folder_of(Path(), name, 0, control).name[:-1] + "[0-9]*")):
                if status(folder) not in ENDED:
                    continue
                lines = metrics(folder)
                summary = json.loads((folder / "summary.json").read_text()) | {"row": name, "control": control}
                summary["evaluations"] = evaluations(lines)
                if takeovers := -sum(line.get("reward/interventions", 0) for line in lines):
                    summary["takeovers"] = takeovers
                if row.data:
                    summary["success_of_data"] = success_of(options.runs / f"{row.task}_data_{summary['seed']}")
                runs.append(summary)
    order = list(ROWS)
    runs = with_earlier(options.results / f"{NAME}.json", runs, ("row", "control", "seed"))
    runs.sort(key=lambda run: (order.index(run["row"]), run["control"], run["seed"]))
    write_json(options.results / f"{NAME}.json", runs)
    (options.results / f"{NAME}.md").write_text(table(runs))


def success_of(path: Path) -> float:
    """Return the share of a data set's episodes that end in success."""
    with EpisodeStore.open(path) as store:
        return sum(record.success is True for record in store.records) / len(store.records)


def table(runs: list[dict]) -> str:
    """Return the table in Markdown: interquartile means over seeds with 95 % bootstrap intervals."""
    lines = [
        "| task | reward | input of the learner | seeds | steps | success at the end | without the module | steps |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in ROWS.items():
        group = [run for run in runs if run["row"] == name and not run["control"]]
        controls = [run for run in runs if run["row"] == (row.control or name) and run["control"]]
        if group:
            steps, steps_without = ("-" if row.data or not of else median_steps(of) for of in (group, controls))
            taken_over = [run["takeovers"] for run in group if "takeovers" in run]
            sees = row.sees + (f" ({np.median(taken_over):,.0f} interventions)" if taken_over else "")
            cells = (row.task, row.reward, sees, str(len(group)), steps, rate(group), rate(controls), steps_without)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def median_steps(group: list[dict]) -> str:
    """Return the median number of environment steps of several runs."""
    return f"{np.median([run['env_steps'] for run in group]):,.0f}"


def rate(group: list[dict]) -> str:
    """Return the success of several runs, and of each; a run that diverged has none."""
    if not group:
        return "-"
    final = [[100 * run["success_rate"]["value"] if run["success_rate"] else 0.0] for run in group]
    interval = bootstrap_interval(interquartile_mean, final)
    each = ", ".join(f"{value:.0f}" for (value,) in final)
    return f"{interval.value:.0f} % [{interval.low:.0f}, {interval.high:.0f}] (seeds: {each})"


if __name__ == "__main__":
    main()

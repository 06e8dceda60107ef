"""Constraints in physical units beside fixed weights of the same costs, at half of what a free policy does.

For each task, a policy without multipliers (``free``) is trained and measured first, with --measured-seed. The limits
of the other settings are --share of its values. ``constrained`` finds multipliers, with success as a constraint; each
``fixed_A_B_C`` weighs the costs with A, B and C, of 0.1, 1 and 10, and is trained only if it is asked for. Runs may be
stopped and started again: finished ones are kept, unfinished ones are resumed.

    python benchmarks/constraints.py
    python benchmarks/constraints.py --tasks pick_cube push_cube --settings constrained fixed --seeds 0 1 2
    python benchmarks/constraints.py --tasks peg_insert --seeds 0 1 2 3 4 --share 0.25 0.5 0.75
    python benchmarks/constraints.py --tasks pick_cube --seeds 0 --env-steps 300 --runs /tmp/try --results /tmp/try

Writes constraints.json in docs/measured/results (one row per run; those of other tasks, settings and seeds stay) and
the table in constraints.md.
"""

import argparse
import itertools
import json
from pathlib import Path

from learning_table import BUDGETS
from table_runs import ENDED, evaluations, metrics, status, table_parser, train_or_resume, with_earlier, write_json

NAME = "constraints"
SMOOTH = {
    "slow": {"term": "speed"},
    "smooth": {"term": "acceleration"},
}
TASKS = {
    "pick_cube": {"gentle": {"keep": "force < 3 N"}, **SMOOTH},
    "push_cube": {"gentle": {"keep": "force < 6 N"}, **SMOOTH},
    "peg_insert": {"gentle": {"term": "force"}},
}
"""What is limited in each task: the share of steps with a larger force, or the mean per step."""
RESTING = {"peg_insert": {"gentle": 2.45}}
"""Values without any contact, by task and constraint: a share of what exceeds them is the limit. The peg, which the
wrist carries, weighs 2.45 N.
"""
SUCCESS = {"pick_cube": 0.95, "push_cube": 0.95, "peg_insert": 0.9}
"""Smallest share of solved episodes, by task."""
WEIGHTS = (0.1, 1.0, 10.0)
LEAST_SHARE = 0.01
"""Smallest limit on a share of steps."""
NEVER = {"keep": 0.999, "term": 1e6}
"""Limits that are not reached."""
KEYS = ("task", "setting", "share", "seed")
"""Fields that identify a run."""


def main() -> None:
    parser = table_parser(__doc__, NAME)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--settings", nargs="+", choices=("constrained", "fixed"), default=["constrained"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--share", nargs="+", type=float, default=[0.5], help="limits as shares of the free policy's")
    parser.add_argument("--measured-seed", type=int, default=5, help="seed of the free policy that is measured")
    parser.add_argument("--env-steps", type=int, help="environment steps of a run, if not those of the task")
    parser.add_argument("--only-summarise", action="store_true", help="write the table from the runs that are there")
    options = parser.parse_args()
    for task in [] if options.only_summarise else options.tasks:
        train(task, "free", 1.0, options.measured_seed, free(task), options)
        write(options)
        measured = json.loads(
            (folder_of(options, task, "free", 1.0, options.measured_seed) / "summary.json").read_text()
        )
        for seed, share, kind in itertools.product(options.seeds, options.share, options.settings):
            bounds = limits(task, measured["constraints"], share)
            for setting, entries in (
                constrained(task, bounds) if kind == "constrained" else fixed(task, bounds)
            ).items():
                train(task, setting, share, seed, entries, options)
                write(options)
    write(options)


def free(task: str) -> dict[str, dict]:
    """Return constraints that only measure."""
    return {
        name: limited | {"most": NEVER[next(iter(limited))], "proportional": 0, "integral": 0}
        for name, limited in TASKS[task].items()
    }


def limits(task: str, measured: dict[str, dict], share: float) -> dict[str, float]:
    """Return the limit of each constraint, as a share of what the free policy did."""
    bounds = {}
    for name, limited in TASKS[task].items():
        resting, value = RESTING.get(task, {}).get(name, 0.0), measured[name]["value"]
        bound = resting + share * max(value - resting, 0.0)
        bounds[name] = float(f"{max(bound, LEAST_SHARE if 'keep' in limited else 0.0):.3g}")
    return bounds


def constrained(task: str, bounds: dict[str, float]) -> dict[str, dict[str, dict]]:
    """Return the constraints with multipliers, by the name of the setting."""
    limited = {name: limited | {"most": bounds[name]} for name, limited in TASKS[task].items()}
    return {"constrained": limited | {"solved": {"success": SUCCESS[task]}}}


def fixed(task: str, bounds: dict[str, float]) -> dict[str, dict[str, dict]]:
    """Return the same limits with each combination of fixed weights, by the name of the setting."""
    settings = {}
    for weights in itertools.product(WEIGHTS, repeat=len(bounds)):
        name = "_".join(["fixed", *(f"{weight:g}" for weight in weights)])
        settings[name] = {
            key: limited | {"most": bounds[key], "initial": weight, "proportional": 0, "integral": 0}
            for (key, limited), weight in zip(TASKS[task].items(), weights, strict=True)
        }
    return settings


def override(value: object) -> str:
    """Return nested dictionaries as a value of an option: keys have no quotes there."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {override(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def folder_of(options: argparse.Namespace, task: str, setting: str, share: float, seed: int) -> Path:
    return options.runs / f"{task}-{setting}-{share:g}-{seed}"


def train(
    task: str, setting: str, share: float, seed: int, entries: dict[str, dict], options: argparse.Namespace
) -> None:
    """Make or finish one run."""
    folder = folder_of(options, task, setting, share, seed)
    if status(folder) in ENDED:
        return
    common = [
        f"run.env_steps={options.env_steps or BUDGETS[task]}",
        "run.evaluation_interval=1000",
        "run.evaluation_episodes=50",
        "run.video_episodes=0",
    ]
    first = [f"task={task}", "agent=rlpd", f"reward.constraints={override(entries)}", f"seed={seed}"]
    if train_or_resume(folder, common, [*first, *options.overrides]) != 0 and setting == "free":
        raise SystemExit(f"{folder}: the free policy, whose values the limits follow from, was not trained")


def write(options: argparse.Namespace) -> None:
    """Write the results of all finished runs."""
    runs = []
    for folder in sorted(options.runs.glob("*-*-*-*")):
        if status(folder) not in ENDED:
            continue
        task, setting, share, seed = folder.name.split("-")
        lines = metrics(folder)
        summary = json.loads((folder / "summary.json").read_text())
        summary |= {"task": task, "setting": setting, "share": float(share), "seed": int(seed)}
        last = next((line for line in reversed(lines) if line["kind"] == "evaluation"), {})
        summary["evaluations"] = evaluations(lines, *(key for key in last if key.startswith("constraint/")))
        moved = [line for line in lines if line["kind"] == "reward"]
        summary["multipliers"] = {
            key.split("/")[1]: value
            for key, value in (moved[-1] if moved else {}).items()
            if key.endswith("/multiplier")
        }
        runs.append(summary)
    runs = with_earlier(options.results / f"{NAME}.json", runs, KEYS)
    runs.sort(key=lambda run: (list(TASKS).index(run["task"]), run["share"], run["setting"], run["seed"]))
    write_json(options.results / f"{NAME}.json", runs)
    (options.results / f"{NAME}.md").write_text(table(runs))


def table(runs: list[dict]) -> str:
    """Return the table in Markdown: means over seeds, and in how many runs every limit was kept."""
    lines = [
        "| task | setting | share of the free policy's | seeds | all kept | success | measured / limit |",
        "|---|---|---|---|---|---|---|",
    ]
    for (task, share, setting), group in itertools.groupby(
        runs, key=lambda run: (run["task"], run["share"], run["setting"])
    ):
        members = list(group)
        names = [name for name in members[0]["constraints"] if name != "solved"]
        kept = sum(all(run["constraints"][name]["kept"] for name in names) for run in members)
        success = 100 * sum(run["success_rate"]["value"] for run in members) / len(members)
        values = ", ".join(measured(name, [run["constraints"][name] for run in members]) for name in names)
        of = "-" if setting == "free" else f"{kept} of {len(members)}"
        lines.append(f"| {task} | {setting} | {share:g} | {len(members)} | {of} | {success:.0f} % | {values} |")
    return "\n".join(lines) + "\n"


def measured(name: str, outcomes: list[dict]) -> str:
    """Return the mean of a constraint over seeds, beside its limit."""
    mean, limit, unit = (
        sum(each["value"] for each in outcomes) / len(outcomes),
        outcomes[0]["limit"],
        outcomes[0]["unit"],
    )
    reached = limit not in NEVER.values()
    if outcomes[0]["kind"] == "share":
        return f"{name} {100 * mean:.1f}{f' / {100 * limit:.1f}' if reached else ''} %"
    return f"{name} {mean:.3g}{f' / {limit:g}' if reached else ''} {unit}"


if __name__ == "__main__":
    main()

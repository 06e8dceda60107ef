"""Public benchmarks beside published results: Gymnasium's MuJoCo tasks, DeepMind Control, OGBench and Meta-World.

    python benchmarks/public.py --suite gymnasium --tasks Hopper-v5 --agents redq --seeds 3
    python benchmarks/public.py --suite dm_control --agents redq
    python benchmarks/public.py --suite ogbench --tasks scene-singletask-task2-v0 --agents qc --name qc_5 \
      --overrides agent.action_chunk=5
    python benchmarks/public.py --suite meta_world --agents rlpd

Takes hours to days. It may be stopped and started again: finished runs are kept, unfinished ones are resumed. With
--missing, runs with a row in public.json are kept, too, if their folders are gone. For OGBench it first makes the play
data (ogbench_play.py). Every run has a row in public.json, from which public.md is written, with the published figures
of published.json beside it; both go to the folder --results. Packages: pip install -c constraints.txt '.[public]', and
pip install --no-deps metaworld imageio.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.table_runs import ROOT, metrics, status, table_parser, train_or_resume, with_earlier, write_json
from robo_rl.evaluation.statistics import bootstrap_interval, interquartile_mean

PUBLISHED = json.loads((Path(__file__).parent / "published.json").read_text())
ENDED = ("completed", "diverged")
KEYS = ("suite", "task", "agent", "seed")
"""Fields that identify a run."""

Row = dict[str, Any]


class Suite(NamedTuple):
    """A public benchmark.

    Attributes:
        task: options that select a task, with ``{}`` in place of its name.
        steps: steps of the policy in a run.
        repeat: environment steps in each of these.
        interval: steps from one evaluation to the next.
        options: further options of each run.
        difference: difference between these runs and the published ones, for the caption.
    """

    task: tuple[str, ...]
    steps: int
    repeat: int
    interval: int
    options: tuple[str, ...]
    difference: str


SUITES = {
    "gymnasium": Suite(
        ("task=gymnasium", "task.env_id={}"),
        100_000,
        1,
        10_000,
        ("run.evaluation_episodes=10",),
        "These runs are of the v5 environments, the published ones of v4: only HalfCheetah is the same.",
    ),
    "dm_control": Suite(
        ("task=dm_control", "task.env_id=dm_control/{}-v0"),
        50_000,
        2,
        5_000,
        ("run.evaluation_episodes=10",),
        "Environment steps are simulator steps: 100,000 are 50,000 decisions.",
    ),
    "ogbench": Suite(
        ("task=ogbench", "task.env_id={}", "agent.gamma=0.99"),
        100_000,
        1,
        20_000,
        ("run.evaluation_episodes=50",),
        "The play data are made again with the package's oracles and are not the published files. The agents have "
        "their default chunks and number of offline updates unless a name says otherwise, not chunks of 5 and "
        "1,000,000 updates. The reward is minus the number of objects that are not where they should be.",
    ),
    "meta_world": Suite(
        ("task=meta_world", "task.env_kwargs.env_name={}"),
        30_000,
        1,
        3_000,
        ("demonstrations.source=expert", "demonstrations.noise=0", "run.evaluation_episodes=50"),
        "These runs have 20 scripted demonstrations without noise and a reward of 0 or 1, in v3 environments, and "
        "count success at any step of 30,000 decisions. The published ones have a shaped reward, no demonstrations and "
        "50,000 decisions, in v2 environments.",
    ),
}


def main() -> None:
    parser = table_parser(__doc__, "public")
    parser.add_argument("--suite", required=True, choices=SUITES)
    parser.add_argument("--tasks", nargs="+", help="all of the suite by default")
    parser.add_argument("--agents", nargs="+", required=True, help="values of agent=, for example redq")
    parser.add_argument("--name", help="of the agent's variant in the table, if --overrides change it")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--missing", action="store_true", help="only runs without a row in public.json")
    parser.add_argument("--play-episodes", type=int, default=1_000, help="of OGBench's play data, 1,000 steps each")
    options = parser.parse_args()
    tasks = options.tasks or list(PUBLISHED[options.suite])
    if unknown := [task for task in tasks if task not in PUBLISHED[options.suite]]:
        parser.error(f"--tasks: {unknown[0]!r} is not in {options.suite}: {', '.join(PUBLISHED[options.suite])}")
    if options.name and len(options.agents) > 1:
        parser.error("--name is for one agent")
    earlier = with_earlier(options.results / "public.json", [], KEYS) if options.missing else []
    known = {tuple(row[key] for key in KEYS) for row in earlier}
    for seed in range(options.seeds):
        for task in tasks:
            for agent in options.agents:
                name = options.name or agent
                if (options.suite, task, name, seed) not in known:
                    train(options, task, agent, seed, options.runs / options.suite / f"{task}_{name}_{seed}")
                    write(options.results, rows_of(options.runs))


def train(options: argparse.Namespace, task: str, agent: str, seed: int, folder: Path) -> None:
    """Make or finish one run."""
    if status(folder) in ENDED:
        return
    suite = SUITES[options.suite]
    first = [*(part.format(task) for part in suite.task), f"agent={agent}", f"seed={seed}"]
    first += [f"run.evaluation_interval={suite.interval}", "run.video_episodes=0", "run.stop_at_success_rate=null"]
    first += suite.options
    if options.suite == "ogbench":
        first.append(f"demonstrations.path={play_data(task, options)}")
    if code := train_or_resume(folder, [f"run.env_steps={suite.steps}"], [*first, *options.overrides]):
        print(f"{folder} ended with exit code {code} and has no row; a second call goes on", flush=True)


def play_data(task: str, options: argparse.Namespace) -> Path:
    """Return the data set of play for ``task``, which is made if it is not there."""
    folder: Path = options.runs / "play" / f"{task}_{options.play_episodes}"
    if not folder.exists():
        command = [sys.executable, str(ROOT / "benchmarks" / "ogbench_play.py"), "--task", task]
        command += ["--episodes", str(options.play_episodes), "--output", str(folder)]
        subprocess.run([*command, "--cache", str(options.runs / "play" / "cache")], check=True)
    return folder


def rows_of(runs: Path) -> list[Row]:
    """Return a row for each run that has ended."""
    rows = []
    for file in sorted(runs.glob("*/*/summary.json")):
        summary = json.loads(file.read_text())
        if summary["status"] not in ENDED or file.parents[1].name not in SUITES:
            continue
        suite, name = file.parents[1].name, file.parent.name.removesuffix(f"_{summary['seed']}")
        task = next(task for task in PUBLISHED[suite] if name.startswith(f"{task}_"))
        lines = metrics(file.parent)
        key = "success_rate" if suite in ("ogbench", "meta_world") else "return_mean"
        curve = [[SUITES[suite].repeat * line["step"], line[key]] for line in lines if line["kind"] == "evaluation"]
        rows.append(
            {
                **{"suite": suite, "task": task, "agent": name.removeprefix(f"{task}_"), "seed": summary["seed"]},
                **{"status": summary["status"], "wall_seconds": summary["wall_seconds"], "curve": curve},
                "versions": summary["versions"],
            }
        )
    return rows


def write(results: Path, rows: list[Row]) -> None:
    """Write the rows, and the tables that are made from them."""
    rows = with_earlier(results / "public.json", rows, KEYS)
    rows.sort(key=lambda row: (list(SUITES).index(row["suite"]), row["task"], row["agent"], row["seed"]))
    write_json(results / "public.json", rows)
    (results / "public.md").write_text("\n".join(table(suite, rows) for suite in SUITES) + "\n")


def table(suite: str, rows: list[Row]) -> str:
    """Return the table of a suite in Markdown: last evaluations, with the published figures beside them."""
    rows = [row for row in rows if row["suite"] == suite]
    if not rows:
        return ""
    agents = sorted({row["agent"] for row in rows})
    columns = list(dict.fromkeys(column for figures in PUBLISHED[suite].values() for column in figures))
    heads = ["task", *(f"`{agent}`" for agent in agents), *columns]
    lines = [f"## {suite}", "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for task, figures in PUBLISHED[suite].items():
        groups = [[row for row in rows if (row["task"], row["agent"]) == (task, agent)] for agent in agents]
        if any(groups):
            cells = [task, *map(cell, groups), *(f"{figures[name]:g}" if name in figures else "-" for name in columns)]
            lines.append(f"| {' | '.join(cells)} |")
    note = "Ours: mean over seeds, interquartile mean [95 % bootstrap interval], number of seeds, minutes of a run."
    return "\n".join([*lines, "", note, SUITES[suite].difference, f"Published: {PUBLISHED['sources'][suite]}.", ""])


def cell(group: list[Row]) -> str:
    """Return the last evaluations of the runs of one agent on one task."""
    last = [row["curve"][-1][1] for row in group if row["curve"]]
    if not last:
        return "-"
    interval = bootstrap_interval(interquartile_mean, [[value] for value in last])
    digits = 2 if group[0]["suite"] in ("ogbench", "meta_world") else 0
    mean, middle, low, high = (
        f"{value:.{digits}f}" for value in (np.mean(last), interval.value, interval.low, interval.high)
    )
    diverged = sum(row["status"] == "diverged" for row in group)
    note = f", {diverged} diverged" if diverged else ""
    minutes = np.mean([row["wall_seconds"] for row in group]) / 60
    return f"{mean}, {middle} [{low}, {high}] ({len(last)} seeds{note}, {minutes:.0f} min)"


if __name__ == "__main__":
    main()

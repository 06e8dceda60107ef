"""Differences that single options of the default agent make, seed by seed, from results of learning_table.py.

    python benchmarks/learning_table.py --agents 3_step_returns 2_critics --tasks cable_route --seeds 3 \
      --env-steps 2000 --name ablation --overrides runtime.threads=1 agent.precision=bfloat16
    python benchmarks/ablation_table.py
    python benchmarks/ablation_table.py --name backends --base float32 --interval 100 --steps 400

Reads learning.json (the default agent) and NAME.json (options of the default, and of ``explores_more``, which was the
default; or of the agent BASE of the same file) in docs/measured/results, and writes NAME_differences.md there.

The score of a run is its mean success over the evaluations at every INTERVAL environment steps until STEPS: it rises
with how early something is learned as well as with what comes of it. A run that ended before counts as what it ended
with.
Each run is compared with that without the option, of the same task and seed, which begins with the same demonstrations
and, where the option does not change that, the same networks. The difference is the interquartile mean over tasks and
seeds with its stratified bootstrap 95 % interval, where there are three seeds or more.
"""

import json
from pathlib import Path

import numpy as np
from learning_table import EARLIER_ABLATIONS
from table_runs import RESULTS, make_parser

from robo_rl.evaluation.statistics import bootstrap_interval, interquartile_mean

REMOVED = ("101_bins", "cal_ql", "iql")
"""Agents compared with ``explores_more`` whose options no longer exist."""

ENOUGH = 3
"""Seeds of a task that counts in the line of all tasks, and has an interval."""

Runs = dict[tuple[str, int], list[dict]]
"""The evaluations of the runs of one agent, by task and seed."""

Pair = tuple[float, float]
"""Scores [%] of a run, and of that without the option with the same task and seed."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--steps", type=int, default=2_000, help="environment steps that are looked at")
    parser.add_argument("--interval", type=int, default=500, help="environment steps from evaluation to evaluation")
    parser.add_argument("--name", default="ablation", help="of the result file")
    parser.add_argument("--base", help="agent of that file that the others are compared with")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the result files")
    options = parser.parse_args()
    steps = range(options.interval, options.steps + 1, options.interval)
    ablations = read(options.results / f"{options.name}.json")
    default = read(RESULTS / "learning.json")["rlpd"]
    lines = [
        f"| option | task | seeds | mean success until {options.steps:,} steps | without it, same seeds | difference |",
        "|---|---|---|---|---|---|",
    ]
    for agent, runs in sorted(ablations.items()):
        if agent == options.base:
            continue
        base = default if options.base is None else ablations[options.base]
        if agent in {*EARLIER_ABLATIONS, *REMOVED}:
            base = ablations["explores_more"]
        pairs: dict[str, list[Pair]] = {}
        for (task, seed), evaluations in sorted(runs.items()):
            if (task, seed) in base:
                pair = score(evaluations, steps), score(base[task, seed], steps)
                pairs.setdefault(task, []).append(pair)
        lines += [row(agent, task, found) for task, found in pairs.items()]
        enough = [found for found in pairs.values() if len(found) >= ENOUGH]
        if len(enough) > 1:
            lines.append(all_row(agent, enough))
    (options.results / f"{options.name}_differences.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def read(file: Path) -> dict[str, Runs]:
    """Return the runs of each agent."""
    agents: dict[str, Runs] = {}
    for run in json.loads(file.read_text()):
        agents.setdefault(run["agent"], {})[run["task"], run["seed"]] = run["evaluations"]
    return agents


def score(evaluations: list[dict], steps: range) -> float:
    """Return the mean success [%] over evaluations at ``steps``; those after the end of the run count as its last."""
    rates = {line["step"]: line["success_rate"] for line in reversed(evaluations)}  # the first of a step counts
    held = [max((step for step in rates if step <= wanted), default=None) for wanted in steps]
    return 100 * float(np.mean([0.0 if step is None else rates[step] for step in held]))


def row(agent: str, task: str, pairs: list[Pair]) -> str:
    """Return the line of one task."""
    complete, without = np.array(pairs).T
    change = difference([complete - without])
    return f"| {agent} | {task} | {len(pairs)} | {numbers(complete)} % | {numbers(without)} % | {change} |"


def all_row(agent: str, tasks: list[list[Pair]]) -> str:
    """Return the line of all tasks together, of as many seeds each."""
    seeds = min(map(len, tasks))
    differences = [np.subtract(*np.array(pairs[:seeds]).T) for pairs in tasks]
    return f"| {agent} | these {len(tasks)} tasks | {seeds} each | | | {difference(differences)} |"


def numbers(values: np.ndarray) -> str:
    return ", ".join(f"{value:.0f}" for value in values)


def difference(tasks: list[np.ndarray]) -> str:
    """Return the interquartile mean of differences (runs,) of each task with its interval, in points of percent."""
    interval = bootstrap_interval(interquartile_mean, np.stack(tasks, axis=1))
    if len(tasks[0]) < ENOUGH:
        return f"{interval.value:+.1f}"
    return f"{interval.value:+.1f} [{interval.low:+.1f}, {interval.high:+.1f}]"


if __name__ == "__main__":
    main()

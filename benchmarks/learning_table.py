"""The learning results of docs/measured/results.md, and ablations of the default agent: one run after another.

Takes hours; it may be stopped and started again: finished runs are kept, unfinished ones are resumed. With --missing,
runs with a row in NAME.json are kept, too, if their folders are gone.

    make table                                            everything
    python benchmarks/learning_table.py --tasks pick_cube --seeds 3
    python benchmarks/learning_table.py --agents rlpd no_layer_norm 3_step_returns --name ablation
    python benchmarks/learning_table.py --tasks Hopper-v5 --agents redq --evaluation-interval 5000 --name gym
    python benchmarks/learning_table.py --tasks reach pick_cube --agents drq --seeds 3 --name pixels
    python benchmarks/learning_table.py --tasks pick_cube push_cube --agents rlpd rlpd_hil --seeds 3 --name hil

Writes docs/measured/results/NAME.json (every run: its summary and evaluations; those of other tasks, agents and
seeds stay) and the table in docs/measured/results/NAME.md.
"""

import argparse
import json
from pathlib import Path

from table_runs import (
    ENDED,
    RESULTS,
    ROOT,
    evaluations,
    make_parser,
    metrics,
    status,
    train_or_resume,
    with_earlier,
    write_json,
)

from robo_rl.evaluation.statistics import bootstrap_interval, interquartile_mean, steps_to_threshold

BUDGETS = {
    "reach": 3_000,
    "pick_cube": 6_000,
    "push_cube": 9_000,
    "open_door": 9_000,
    "peg_insert": 15_000,
    "cable_route": 18_000,
    "bin_relocate": 24_000,
    "stack_cubes": 30_000,
    "plug_insert": 30_000,
    "regrasp": 30_000,
    "wipe": 30_000,
}
"""Environment steps allowed for 95 % success."""

ENVIRONMENTS = {"FetchReach-v4": 10_000, "Hopper-v5": 100_000}
"""Environment steps in Gymnasium's environments."""

META_WORLD = {"pick-place-v3": 10_000, "hammer-v3": 10_000, "door-open-v3": 10_000}
"""Environment steps in tasks of Meta-World (``pip install --no-deps metaworld``), which have scripted experts."""

RETURNS = {"Hopper-v5": 2_500}
"""Mean return that counts as solved where an environment knows no success; a run ends one tenth above it."""

AGENTS = {
    "rlpd": ["agent=rlpd"],
    "sac": ["agent=sac", "demonstrations.episodes=0"],
    "bc": ["agent=bc"],
    "qc": ["agent=qc"],
}

FROM_EXPERT = "demonstrations.source=expert"
"""Demonstrations by the task's scripted expert, with noise on what is executed and labels without it (DART)."""

SINGLE_ACTIONS = "agent.action_chunk=1"
"""The policy decides every action by itself."""

CLONED = {
    "cloned": ["agent=rlpd", "run.env_steps=0"],
    "cloned_single": ["agent=rlpd", SINGLE_ACTIONS, "run.env_steps=0"],
}
"""The default agent before its first environment step, which is behaviour cloning alone: chunks and single actions."""

FIRST_STEPS = 500
"""Environment steps whose training episodes, with exploration, are counted."""

EXPLORING = ["agent.initial_log_std=-1", "agent.initial_temperature=0.01", "agent.actor_q=mean"]
"""More than ``agent=rlpd`` does, which knows from cloning what to do, and less cautious."""

ABLATIONS = {
    "rlpd_published": ["agent=rlpd_published"],
    "10_critics_256_rows": ["agent.ensemble_size=10", "agent.batch_size=256"],
    "2_critics": ["agent.ensemble_size=2"],
    "10_updates": ["agent.update_to_data=10"],
    "no_layer_norm": ["agent.layer_norm=false"],
    "no_pretraining": ["agent.pretrain_steps=0"],
    "no_cloning": ["agent.cloning_weight=0", "agent.final_cloning_weight=0", "agent.online_cloning_weight=0"],
    "newest_actor": ["agent.actor_tau=1"],
    "float32": ["agent.precision=float32"],
    "torch": ["agent.implementation=torch", "agent.precision=float32"],
    "mean_of_critics": ["agent.actor_q=mean"],
    "explores_more": EXPLORING,
    "no_online_cloning": ["agent.online_cloning_weight=0"],
}
"""What each differs in from the default agent, ``rlpd``."""

EARLIER_ABLATIONS = {
    name: [*EXPLORING, *overrides]
    for name, overrides in {
        "3_step_returns": ["agent.n_step=3"],
        "3_step_chunks": ["agent.action_chunk=3"],
        "temperature_0.003": ["agent.initial_temperature=0.003"],
    }.items()
}
"""What each differs in from ``explores_more``, which was the default."""

PIXELS = [
    "agent=drq",
    "task.observation.width=64",
    "task.observation.height=64",
    "task.observation.object=false",
]
"""Two cameras and proprioception; nothing else tells where the objects are."""

SHAPED_PIXELS = [
    *PIXELS,
    "agent.gamma=0.95",
    "agent.demonstration_ratio=0.25",
    "agent.final_cloning_weight=0.1",
    "agent.pretrain_steps=500",
    "reward=composed",
    "+reward.terms.success.weight=1",
    "+reward.terms.near.weight=0.2",
    "reward.offset=-0.2",
]
"""For ``reach``, where success alone says too little: each step costs the more, the farther the goal is."""

TWO_CAMERAS = {"reach": "[ahead,side]"}
"""Where those of ``agent=drq`` are not those that look at a table: goals of ``reach`` are in the air."""

RAY = [
    "agent=rlpd",
    "runtime=ray",
    # As many simulators as a lab has robots, and as slow: cores are no limit then.
    "runtime.real_time_factor=1",
    "runtime.actor_resources={CPU: 0.1}",
]

HIL = ["agent=rlpd", "intervention.criterion=operator", "intervention.hold=15"]
"""The default agent, supervised by a simulated operator who corrects it for 1.5 s on average (at 10 Hz)."""

CHOICES = (
    AGENTS
    | CLONED
    | ABLATIONS
    | EARLIER_ABLATIONS
    | {
        "redq": ["agent=redq"],
        "rlpd_hil": HIL,
        "drq": PIXELS,
        "drq_shaped": SHAPED_PIXELS,
        "rlpd_async": ["agent=rlpd", "runtime=async"],
        "rlpd_ray_1": [*RAY, "runtime.actors=1"],
        "rlpd_ray_4": [*RAY, "runtime.actors=4"],
    }
)

KEYS = ("task", "agent", "seed")
"""Fields that identify a run."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=BUDGETS | META_WORLD | ENVIRONMENTS, default=list(BUDGETS))
    parser.add_argument("--agents", nargs="+", choices=CHOICES, default=list(AGENTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--runs", type=Path, help="folder of the runs; runs/NAME by default")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--name", default="learning", help="of the result files")
    parser.add_argument("--evaluation-interval", type=int, default=500)
    parser.add_argument("--env-steps", type=int, help="of every run; each task's own number by default")
    parser.add_argument("--stop-at", type=float, default=0.98, help="end a run when an evaluation reaches this rate")
    parser.add_argument("--overrides", nargs="*", default=[], help="for every run, for example runtime.threads=1")
    parser.add_argument("--missing", action="store_true", help="only runs without a row in NAME.json")
    parser.add_argument("--only-summarise", action="store_true", help="write the table from the runs that are there")
    options = parser.parse_args()
    options.runs = options.runs or ROOT / "runs" / options.name
    earlier = with_earlier(options.results / f"{options.name}.json", [], KEYS) if options.missing else []
    known = {tuple(run[key] for key in KEYS) for run in earlier}
    for seed in range(options.seeds):
        for task in options.tasks:
            for agent in options.agents:
                folder = options.runs / f"{task}_{agent}_{seed}"
                if not options.only_summarise and (task, agent, seed) not in known:
                    train(task, agent, seed, folder, options)
                    write(options)
    write(options)


def train(task: str, agent: str, seed: int, folder: Path, options: argparse.Namespace) -> None:
    """Make or finish one run."""
    if status(folder) in ENDED:
        return
    common = [
        f"run.env_steps={options.env_steps or (BUDGETS | META_WORLD | ENVIRONMENTS)[task]}",
        f"run.evaluation_interval={options.evaluation_interval}",
        "run.evaluation_episodes=100",
        f"run.stop_at_success_rate={options.stop_at}",
        "run.video_episodes=0",
        *([f"run.stop_at_return={1.1 * RETURNS[task]}"] if task in RETURNS else []),
    ]
    if task in ENVIRONMENTS:
        named = ["task=gymnasium", f"task.env_id={task}"]
    elif task in META_WORLD:
        named = ["task=meta_world", f"task.env_kwargs.env_name={task}"]
    else:
        named = [f"task={task}"]
    if agent in ("drq", "drq_shaped"):
        named.append(f"task.observation.cameras={TWO_CAMERAS.get(task, '[front,wrist]')}")
    # The agent comes last: an ablation may be of what all runs are given.
    train_or_resume(folder, common, [*named, f"seed={seed}", *options.overrides, *CHOICES[agent]])


def write(options: argparse.Namespace) -> None:
    """Write the results of all finished runs."""
    runs = []
    for file in sorted(options.runs.glob("*/summary.json")):
        summary = json.loads(file.read_text())
        task, seed = summary["task"].removeprefix("Meta-World/"), summary["seed"]
        summary["task"] = task
        summary["agent"] = file.parent.name.removeprefix(f"{task}_").removesuffix(f"_{seed}")
        if summary["status"] not in ENDED:
            continue
        lines = metrics(file.parent)
        summary["evaluations"] = evaluations(lines, "return_mean")
        episodes = [line for line in lines if line["kind"] == "episode"]
        first = [line["success"] for line in episodes if line["step"] <= FIRST_STEPS]
        if intervened := sum(line.get("intervened_steps", 0) for line in episodes):
            summary["intervened_share"] = intervened / sum(line["length"] for line in episodes)
        summary["first_episodes"] = {"number": len(first), "successes": sum(success is True for success in first)}
        solved = next((line for line in summary["evaluations"] if is_solved(task, line)), {})
        summary["steps_to_solved"], summary["wall_seconds_to_solved"] = solved.get("step"), solved.get("wall_seconds")
        runs.append(summary)
    runs = with_earlier(options.results / f"{options.name}.json", runs, KEYS)
    runs.sort(key=lambda run: (run["task"], run["agent"], run["seed"]))
    write_json(options.results / f"{options.name}.json", runs)
    (options.results / f"{options.name}.md").write_text(table(runs))


def is_solved(task: str, evaluation: dict) -> bool:
    """Tell whether an evaluation came to 95 % success, or to the return of an environment that knows no success."""
    if task in RETURNS:
        return evaluation["return_mean"] >= RETURNS[task]
    return (evaluation["success_rate"] or 0) >= 0.95


def table(runs: list[dict]) -> str:
    """Return the table in Markdown."""
    lines = [
        "| task | agent | seeds | steps to 95 % | robot-minutes | wall-clock minutes | success or return at the end |",
        "|---|---|---|---|---|---|---|",
    ]
    for task in BUDGETS | META_WORLD | ENVIRONMENTS:
        for agent in CHOICES:
            group = [run for run in runs if (run["task"], run["agent"]) == (task, agent)]
            if group:
                lines.append(row(task, agent, group))
    return "\n".join(lines) + "\n"


def row(task: str, agent: str, group: list[dict]) -> str:
    """Return one row: interquartile means over seeds with bootstrap 95 % intervals.

    In runs with interventions, the agent's name is followed by the mean share of intervened steps.
    """
    knows = task not in RETURNS
    final = [[100 * run["success_rate"]["value"] if knows else run["return_mean"]] for run in group]
    interval = bootstrap_interval(interquartile_mean, final)
    end = f"{interval.value:,.0f}{' %' if knows else ''} [{interval.low:,.0f}, {interval.high:,.0f}]"
    shares = [run["intervened_share"] for run in group if "intervened_share" in run]
    name = f"{agent} ({100 * sum(shares) / len(group):.0f} % intervened)" if shares else agent
    if agent == "bc" or agent in CLONED:
        return f"| {task} | {agent} | {len(group)} | - | - | - | {end} |"
    steps = steps_to_threshold([run["steps_to_solved"] for run in group], [run["env_steps"] for run in group])
    wall = steps_to_threshold([run["wall_seconds_to_solved"] for run in group], [run["wall_seconds"] for run in group])
    minutes_per_step = group[0]["robot_minutes"] / max(group[0]["env_steps"], 1)
    return (
        f"| {task} | {name} | {len(group)} | {steps.describe()} | {steps.describe(minutes_per_step)} | "
        f"{wall.describe(1 / 60)} | {end} |"
    )


if __name__ == "__main__":
    main()

"""Learning without manual resets: the robot itself begins every episode but the first.

``bin_relocate`` is learned forward and backward by turns and judged both ways; ``pick_cube`` is trained for 6,000
steps; the car of ``drive`` practises for 24,000, 20 minutes of its time. Finished runs are kept, unfinished ones
resumed.

    python benchmarks/reset_free.py [--tasks drive pick_cube] [--seeds 0 1 2] [--overrides KEY=VALUE ...]

Writes docs/measured/results/reset_free.json: of each run its summary, its evaluations, those of the policy at the end,
and how many episodes of the training succeeded.
"""

import json
from pathlib import Path

from learning_table import FROM_EXPERT, SINGLE_ACTIONS
from table_runs import RESULTS, ROOT, evaluations, make_parser, metrics, robo_rl, status, write_json

FINISHED = ("completed", "reached")
CHOSEN = {
    "bin_relocate": ["reset=homing", FROM_EXPERT, SINGLE_ACTIONS],
    "pick_cube": ["reset=homing", FROM_EXPERT, SINGLE_ACTIONS],
    "drive": [FROM_EXPERT, "demonstrations.episodes=1", "demonstrations.noise=0.1"],
}
"""What each task is trained with."""
RUNS = {
    "bin_relocate": [
        "run.env_steps=24000",
        "run.evaluation_interval=500",
        "run.evaluation_episodes=100",
        "run.stop_at_success_rate=0.97",
    ],
    "pick_cube": ["run.env_steps=6000", "run.evaluation_interval=1000", "run.evaluation_episodes=100"],
    "drive": ["run.env_steps=24000", "run.evaluation_interval=1000", "run.evaluation_episodes=3"],
}
"""How long, and how often it is evaluated, on a simulator of its own."""
JUDGED = {
    "bin_relocate": {
        "forward": ["episodes=100", "+task.direction=forward"],
        "backward": ["episodes=100", "+task.direction=backward"],
    },
    "pick_cube": {"all": ["episodes=100"]},
    "drive": {
        "a lap from standstill": ["episodes=10"],
        "three laps": ["episodes=3", "+task.laps=3", "+task.max_episode_steps=2000"],
    },
}
"""The evaluations at the end."""


def main() -> None:
    """Run, and write what came of it."""
    parser = make_parser(__doc__, "--output", RESULTS / "reset_free.json")
    parser.add_argument("--tasks", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "reset_free")
    parser.add_argument("--overrides", nargs="*", default=[], help="for every run, for example runtime.threads=1")
    options = parser.parse_args()
    for seed in options.seeds:
        for task in options.tasks:
            folder = options.runs / f"{task}_{seed}"
            train(task, seed, folder, options.overrides)
            if status(folder) in FINISHED:
                judge(task, folder)
            write(options.runs, options.output)


def train(task: str, seed: int, folder: Path, overrides: list[str]) -> None:
    """Make or finish one run."""
    if status(folder) in FINISHED:
        return
    if (folder / "checkpoints").exists():
        chosen = [f"resume={folder}"]
    else:
        chosen = [f"task={task}", f"seed={seed}", f"run.dir={folder}", "run.overwrite=true", *CHOSEN[task], *overrides]
    robo_rl("train", *chosen, *RUNS[task], "run.video_episodes=0")


def judge(task: str, folder: Path) -> None:
    """Evaluate the policy of a finished run, each way by itself."""
    for name, overrides in JUDGED[task].items():
        file = folder / f"evaluation_{name}.json"
        if not file.exists():
            robo_rl("eval", f"run={folder}", "checkpoint=newest", f"output={file}", *overrides)


def write(runs: Path, output: Path) -> None:
    """Write the results of all finished runs."""
    results = []
    for file in sorted(runs.glob("*/summary.json")):
        summary = json.loads(file.read_text())
        if summary["status"] not in FINISHED:
            continue
        lines = metrics(file.parent)
        summary["evaluations"] = evaluations(lines, "lap_seconds_median")
        found = {
            name: json.loads((file.parent / f"evaluation_{name}.json").read_text()) for name in JUDGED[summary["task"]]
        }
        summary["policy_at_the_end"] = {
            name: {key: result[key] for key in ("success_rate", "lap_seconds_median") if result.get(key) is not None}
            for name, result in found.items()
        }
        episodes = [line for line in lines if line["kind"] == "episode"]
        succeeded = sum(line["success"] is True for line in episodes)
        summary["training_episodes"] = {"all": len(episodes), "succeeded": succeeded}
        results.append(summary)
    write_json(output, results)


if __name__ == "__main__":
    main()

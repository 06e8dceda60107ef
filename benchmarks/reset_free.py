"""Learning without anybody putting things back: the robot itself begins every episode but the first.

``bin_relocate`` is learned forward and backward by turns and judged both ways; ``pick_cube`` is trained for 6,000
steps; the car of ``drive`` practises for 24,000, 20 minutes of its time. Finished runs are kept, unfinished ones
resumed.

    python benchmarks/reset_free.py [--tasks drive pick_cube] [--seeds 0 1 2] [--overrides KEY=VALUE ...]

Writes docs/measured/results/reset_free.json: of each run its summary, its evaluations, those of the policy at the end,
and how many episodes of the training succeeded.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from learning_table import FROM_EXPERT, SINGLE_ACTIONS

ROOT = Path(__file__).resolve().parents[1]
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "reset_free")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "measured" / "results" / "reset_free.json")
    parser.add_argument("--overrides", nargs="*", default=[], help="for every run, for example runtime.threads=1")
    options = parser.parse_args()
    for seed in options.seeds:
        for task in options.tasks:
            folder = options.runs / f"{task}_{seed}"
            train(task, seed, folder, options.overrides)
            if (summary := summary_of(folder)) is not None and is_finished(summary):
                judge(task, folder)
            write(options.runs, options.output)


def train(task: str, seed: int, folder: Path, overrides: list[str]) -> None:
    """Make or finish one run."""
    summary = summary_of(folder)
    if summary is not None and is_finished(summary):
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


def robo_rl(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "robo_rl.cli", *arguments], check=True)


def summary_of(folder: Path) -> dict[str, Any] | None:
    """Return the summary of a run, or None."""
    file = folder / "summary.json"
    return json.loads(file.read_text()) if file.exists() else None


def is_finished(summary: dict[str, Any]) -> bool:
    return summary["status"] in ("completed", "reached")


def write(runs: Path, output: Path) -> None:
    """Write the results of all finished runs."""
    results = []
    for file in sorted(runs.glob("*/summary.json")):
        summary = json.loads(file.read_text())
        if not is_finished(summary):
            continue
        lines = [json.loads(line) for line in (file.parent / "metrics.jsonl").read_text().splitlines()]
        summary["evaluations"] = [
            {key: line[key] for key in ("step", "wall_seconds", "success_rate", "lap_seconds_median", "episodes")}
            for line in lines
            if line["kind"] == "evaluation"
        ]
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
    output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

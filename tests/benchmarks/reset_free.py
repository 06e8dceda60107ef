"""Learning without anybody putting things back: the arm begins every episode but the first (``reset=homing``).

``bin_relocate`` is learned forward and backward by turns and judged both ways; ``pick_cube`` is trained for 6,000
steps. Finished runs are kept and unfinished ones resumed.

    python tests/benchmarks/reset_free.py [--tasks bin_relocate pick_cube] [--seeds 0 1 2] [--overrides KEY=VALUE ...]

Writes docs/results/reset_free.json: of each run its summary, its evaluations and those of the policy at the end.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RUNS = {
    "bin_relocate": ["run.env_steps=24000", "run.evaluation_interval=500", "run.stop_at_success_rate=0.97"],
    "pick_cube": ["run.env_steps=6000", "run.evaluation_interval=1000"],
}
"""What each task is trained with; an evaluation is of 100 episodes of a simulator of its own."""
JUDGED: dict[str, dict[str, list[str]]] = {
    "bin_relocate": {"forward": ["+task.direction=forward"], "backward": ["+task.direction=backward"]},
    "pick_cube": {"all": []},
}
"""Overrides of the evaluations at the end."""


def main() -> None:
    """Run, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "reset_free")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results" / "reset_free.json")
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
        chosen = [f"task={task}", "reset=homing", f"seed={seed}", f"run.dir={folder}", "run.overwrite=true", *overrides]
    chosen += [*RUNS[task], "run.evaluation_episodes=100", "run.video_episodes=0"]
    robo_rl("train", *chosen)


def judge(task: str, folder: Path) -> None:
    """Evaluate the policy of a finished run, each way by itself."""
    for name, overrides in JUDGED[task].items():
        file = folder / f"evaluation_{name}.json"
        if not file.exists():
            robo_rl("eval", f"run={folder}", "checkpoint=newest", "episodes=100", f"output={file}", *overrides)


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
            {key: line[key] for key in ("step", "wall_seconds", "success_rate", "episodes")}
            for line in lines
            if line["kind"] == "evaluation"
        ]
        summary["policy_at_the_end"] = {
            name: json.loads((file.parent / f"evaluation_{name}.json").read_text())["success_rate"]
            for name in JUDGED[summary["task"]]
        }
        results.append(summary)
    output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Success of clones of demonstrations, of a learned policy's episodes, and of both (RLDG, Xu et al. 2024).

    python benchmarks/cloned_data.py [--tasks push_cube pick_cube] [--seeds 0 1 2] [--counts 20 100]

For each task and seed, the default agent learns until 95 % of its evaluation episodes succeed, and its policy collects
successful episodes. Policies are then cloned from as many demonstrations of a human-like script, from as many episodes
of the policy, and from both together, and evaluated in the same start states, which no training has used. The first
demonstrations of a larger set are those that the agent learned from. A second call goes on where the first one ended.
Takes ten to fifteen minutes of one core for each task and seed. Writes docs/measured/results/cloned_data.json.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from table_runs import ENDED, RESULTS, ROOT, make_parser, robo_rl, status, train_or_resume, write_json

STEPS = 12_000
"""Environment steps after which the agent stops learning although it has not reached 95 %."""
EPISODES = 100
"""Evaluation episodes of each policy."""


def learn(folder: Path, task: str, seed: int, count: int) -> None:
    """Train the default agent, record ``count`` demonstrations, and collect as many episodes of the policy."""
    common = (f"task={task}", f"seed={seed}", "runtime.threads=1", "run.video_episodes=0")
    if status(folder / "learned") not in ENDED:
        goal = ("run.evaluation_interval=500", "run.evaluation_episodes=50", "run.stop_at_success_rate=0.95")
        train_or_resume(folder / "learned", (f"run.env_steps={STEPS}",), (*common, *goal))
    if not (folder / "demonstrations").exists():
        recorded = folder / "recorded"  # an agent that learns nothing, for the demonstrations alone
        none = ("agent=bc", "agent.pretrain_steps=1", "run.env_steps=0", "run.final_evaluation_episodes=1")
        robo_rl(
            "train", *common, *none, f"demonstrations.episodes={count}", f"run.dir={recorded}", "run.overwrite=true"
        )
        shutil.move(recorded / "demonstrations", folder / "demonstrations")
    if not (folder / "episodes").exists():
        words = (f"policy={folder / 'learned'}", f"output={folder / 'episodes'}", f"episodes={count}", f"seed={seed}")
        robo_rl("collect", *words, "only_successful=true")


def clone(folder: Path, task: str, seed: int, data: str, count: int) -> dict[str, Any]:
    """Return the result of a clone of ``count`` episodes of ``data``; of as many of each if that is "both"."""
    run, source = folder / f"clone_{data}_{count}", folder / data
    if data == "both":
        source = folder / f"both_{count}"
        if not source.exists():
            parts = [folder / name for name in ("demonstrations", "episodes")]
            parts = [first_of(part, count, folder / f"{part.name}_{count}") for part in parts]
            robo_rl("data", "edit", f"path={parts[0]}", f"merge=[{parts[1]}]", f"output={source}")
    if status(run) not in ENDED:
        used = 2 * count if data == "both" else count
        words = (f"task={task}", f"seed={seed}", "agent=bc", f"demonstrations.path={source}")
        numbers = (f"demonstrations.episodes={used}", "run.env_steps=0", f"run.final_evaluation_episodes={EPISODES}")
        more = ("runtime.threads=1", "run.video_episodes=0", f"run.dir={run}", "run.overwrite=true")
        robo_rl("train", *words, *numbers, *more)
    summary = json.loads((run / "summary.json").read_text())
    return {"task": task, "seed": seed, "data": data, "count": count} | {
        key: summary[key] for key in ("success_rate", "cycle_time")
    }


def first_of(data: Path, count: int, output: Path) -> Path:
    """Return a data set of the first ``count`` episodes of ``data``."""
    if not output.exists():
        robo_rl("data", "edit", f"path={data}", f"keep={list(range(count))}", f"output={output}")
    return output


def main() -> None:
    """Learn, collect, clone, and write the rows."""
    parser = make_parser(__doc__, "--json", RESULTS / "cloned_data.json")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "cloned_data", help="folder of runs and data")
    parser.add_argument("--tasks", nargs="+", default=["push_cube", "pick_cube"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--counts", nargs="+", type=int, default=[20, 100], help="episodes of each kind")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for seed in options.seeds:
        for task in options.tasks:
            folder = options.runs / f"{task}_{seed}"
            learn(folder, task, seed, max(options.counts))
            summary = json.loads((folder / "learned" / "summary.json").read_text())
            kept = {key: summary[key] for key in ("success_rate", "cycle_time", "env_steps")}
            rows.append({"task": task, "seed": seed, "data": None} | kept)
            for count in options.counts:
                for data in ("demonstrations", "episodes", "both"):
                    rows.append(clone(folder, task, seed, data, count))
                    write_json(options.json, rows)


if __name__ == "__main__":
    main()

"""Success of a skill learned on the virtual robot through ROS 2, beside that in the simulator alone.

    python benchmarks/virtual_robot.py [--rows pick_cube_1] [--seeds 0 1 2] [--output FILE]

Robot, learner and actor are processes of their own, which speak DDS; the simulator alone is `runtime=local`. Policies
are evaluated in simulation, those of the robot then on the robot too (`robo-rl eval`). Runs take as long as the robot
does: leave the machine to them. Where the file is there, results of other rows and seeds stay in it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from learning_table import FROM_EXPERT, SINGLE_ACTIONS
from table_runs import RESULTS, ROOT, make_parser, robo_rl, with_earlier, write_json

sys.path.insert(0, str(ROOT))

from tests.rigs.ros2_domain import free_domain

ROWS = {
    "pick_cube_1": ("task=pick_cube", 1.0, ["run.env_steps=600", "run.evaluation_interval=100"]),
    "pick_cube_3": ("task=pick_cube", 3.0, ["run.env_steps=600", "run.evaluation_interval=100"]),
    "reach_3": ("task=reach", 3.0, ["run.env_steps=3000", "run.evaluation_interval=500"]),
}
"""Task, real-time factor, and options of the run."""

COMMON = [
    FROM_EXPERT,
    SINGLE_ACTIONS,
    "run.evaluation_episodes=50",
    "run.final_evaluation_episodes=100",
    "run.stop_at_success_rate=0.95",
    "run.video_episodes=0",
    "runtime.threads=1",
    "agent.precision=bfloat16",
    "logging.progress=false",
]
KEPT = ("status", "env_steps", "wall_seconds", "success_rate", "steps_to_95", "learner_steps_per_env_step")


def train(folder: Path, *words: str) -> dict[str, Any]:
    """Train in ``folder``; return what the table is made of."""
    robo_rl("train", *words, *COMMON, f"run.dir={folder}")
    summary = json.loads((folder / "summary.json").read_text())
    return {key: summary[key] for key in KEPT if key in summary}


def measure(row: str, seed: int, folder: Path) -> dict[str, Any]:
    """Return the results of one row and seed."""
    task, factor, options = ROWS[row]
    robot = subprocess.Popen(
        [sys.executable, "-m", "robo_rl.cli", "robot", task, f"virtual.real_time_factor={factor}"],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        words = [task, f"seed={seed}", *options]
        on_robot = train(folder / "robot", *words, "robot=virtual", f"robot.real_time_factor={factor}")
        judged = [f"run={folder / 'robot'}", "on_robot=true", "episodes=50", f"output={folder / 'evaluation.json'}"]
        robo_rl("eval", *judged)
    finally:
        robot.send_signal(signal.SIGTERM)
        robot.wait(60)
    evaluation = json.loads((folder / "evaluation.json").read_text())
    return {
        "row": row,
        "seed": seed,
        "real_time_factor": factor,
        "learned_on_the_robot": on_robot,
        "evaluated_on_the_robot": evaluation["success_rate"],
        "learned_in_the_simulator": train(folder / "simulator", *words),
    }


def main() -> None:
    parser = make_parser(__doc__, "--output", RESULTS / "virtual_robot.json")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    for row in options.rows:
        for seed in options.seeds:
            with tempfile.TemporaryDirectory() as folder, free_domain() as environment:
                os.environ.update(environment)
                found = measure(row, seed, Path(folder))
            print(json.dumps(found), flush=True)
            runs = with_earlier(options.output, [found], ("row", "seed"))
            runs.sort(key=lambda run: (run["row"], run["seed"]))
            write_json(options.output, runs)


if __name__ == "__main__":
    main()

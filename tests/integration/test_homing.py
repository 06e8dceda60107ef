"""Training without resets of the simulator through the command line: the arm goes home by itself."""

import json
from pathlib import Path

from ..rigs.command_line import robo_rl
from ..rigs.run_folder import records

COMMON = [
    "task=pick_cube",
    "reset=homing",
    "agent.hidden=[16]",
    "agent.ensemble_size=2",
    "agent.update_to_data=1",
    "agent.batch_size=16",
    "agent.learning_starts=80",
    "agent.random_steps=100",
    "agent.pretrain_steps=5",
    "demonstrations.episodes=1",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
]


def test_episodes_are_begun_by_the_arm_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    robo_rl("train", *COMMON, "run.env_steps=50", f"run.dir={folder}")
    output = robo_rl("train", f"resume={folder}", "run.env_steps=90")
    assert "90/90 steps  LEARNING" in output
    practice = json.loads((folder / "summary.json").read_text())["practice"]
    assert practice["resets"] == 2  # random actions use up the time limit of 40 steps
    assert practice["reset_success_rate"] == 1.0
    assert practice["manual_resets"] == 0
    assert practice["learning_seconds"] == 9.0
    assert practice["recovery_seconds"] > 1
    episodes = records(folder, "episode")
    assert [line["length"] for line in episodes] == [40, 40]
    assert episodes[-1]["practice/reset_success_rate"] == 1.0


def test_an_object_that_stays_out_of_reach_ends_the_run_before_any_step(tmp_path: Path) -> None:
    # With a computed reward: an episode without a step earns nothing a step.
    folder = tmp_path / "run"
    nowhere = ["reward=perceptual", "reset.scripts.pick_cube.within=[[0.9,0.0],[1.0,0.1]]"]
    output = robo_rl("train", *COMMON, *nowhere, "run.env_steps=50", f"run.dir={folder}", code=2)
    assert "2 resets in a row have not brought it back. A person has to" in output
    assert records(folder, "episode") == []

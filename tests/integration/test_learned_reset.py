"""Training whose episodes a second agent begins, through the command line."""

import json
from pathlib import Path

from ..rigs.command_line import robo_rl
from ..rigs.run_folder import records

SMALL = ["hidden=[16]", "ensemble_size=2", "update_to_data=1", "batch_size=16", "learning_starts=20"]
COMMON = [
    "task=reach",
    "reset=learned",
    *(f"agent.{each}" for each in SMALL),
    *(f"reset.agent.{each}" for each in SMALL),
    "reset.agent.random_steps=5",
    "reset.reward.modules.goal.fit_steps=20",
    "reset.attempts=1",
    "reset.seconds=1.0",
    "agent.random_steps=100",
    "agent.pretrain_steps=5",
    "demonstrations.episodes=2",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
]


def test_episodes_end_before_what_cannot_be_undone_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    # Values are below 0: from the second reset on no episode gets beyond its first step.
    robo_rl("train", *COMMON, "reset.least_value=10", "reset.refuses_from=2", "run.env_steps=40", f"run.dir={folder}")
    output = robo_rl("train", f"resume={folder}", "run.env_steps=60")
    assert "the way back has a value of" in output
    practice = json.loads((folder / "summary.json").read_text())["practice"]
    episodes = records(folder, "episode")
    assert [episode["length"] for episode in episodes[2:]] == [1] * (len(episodes) - 2)
    assert {episode["stopped"] for episode in episodes[2:]} == {"irreversible"}
    assert practice["refused_actions"] == len(episodes) - 2
    assert practice["resets"] == practice["reset_attempts"] >= 5
    assert practice["recovery_seconds"] > 0

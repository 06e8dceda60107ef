"""A training run under safety: what was changed and stopped is counted, and a stop does not end the run."""

import json
from pathlib import Path

from ..rigs.command_line import robo_rl
from ..rigs.run_folder import records

QUICK = [
    "demonstrations.episodes=0",
    "agent.hidden=[16]",
    "agent.ensemble_size=2",
    "agent.update_to_data=1",
    "agent.batch_size=16",
    "agent.learning_starts=1000",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "logging.progress=false",
]


def train(folder: Path, *arguments: str) -> str:
    return robo_rl("train", f"run.dir={folder}", *QUICK, *arguments)


def test_changed_steps_and_stopped_episodes_are_counted(tmp_path):
    output = train(
        tmp_path / "run",
        "task=reach",
        "run.env_steps=60",
        "agent.random_steps=60",
        "safety.speed.linear=0.2",
        "safety.violation_budget=8",
    )
    assert ": 8 actions in a row had to be changed" in output
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())["safety"]
    assert summary["changed_steps"] > 40
    assert summary["stopped_episodes"] >= 5
    assert summary["reasons"]["speed"] > 40
    episodes = records(tmp_path / "run", "episode")
    assert episodes[0]["stopped"] == "violation_budget"
    assert episodes[0]["safety/speed"] >= 8


def test_the_fake_arm_trains_in_real_time(tmp_path):
    train(tmp_path / "run", "task=fake_arm", "run.env_steps=30", "agent.random_steps=30", "task.max_episode_steps=15")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["task"] == "fake_arm"
    assert summary["env_steps"] == 30

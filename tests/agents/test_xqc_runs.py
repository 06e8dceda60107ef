"""A run of XQC from the command line: interrupted by its end, resumed, and equal to an unbroken one."""

from pathlib import Path

import numpy as np
import pytest

from robo_rl.cli import main

from ..rigs.run_folder import newest_state, records

TRAIN = [
    "train",
    "task=gymnasium",
    "task.env_id=Pendulum-v1",
    "agent=xqc",
    "agent.hidden=[6]",
    "agent.critic_hidden=[6]",
    "agent.batch_size=8",
    "agent.learning_starts=5",
    "agent.random_steps=5",
    "task.max_episode_steps=7",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "logging.progress=false",
    "logging.train_interval=1",
]


def robo_rl(*words: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*words])
    assert not caught.value.code


def test_a_resumed_run_equals_an_unbroken_one(tmp_path: Path) -> None:
    robo_rl(*TRAIN, f"run.dir={tmp_path}/unbroken", "run.env_steps=16")
    robo_rl(*TRAIN, f"run.dir={tmp_path}/run", "run.env_steps=10")
    robo_rl("train", f"resume={tmp_path}/run", "run.env_steps=16")
    first, second = newest_state(tmp_path / "unbroken"), newest_state(tmp_path / "run")
    assert first["agent/updates"] == 12 and first.keys() == second.keys()
    for key in first:
        np.testing.assert_array_equal(first[key], second[key], err_msg=key, strict=True)
    assert np.abs(first["agent/actor_statistics/input/mean"]).max() > 0
    updates = [record for record in records(tmp_path / "run", "train") if "critic_loss" in record]
    assert len(updates) == 12 and sum("entropy" in record for record in updates) == 4

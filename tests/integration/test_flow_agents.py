"""Runs of the agents with a flow and critics: offline, continued online, and without demonstrations."""

import json
from pathlib import Path

import numpy as np
import pytest

from robo_rl.cli import main

from ..rigs.run_folder import newest_state, records

TRAIN = [
    "task=reach",
    "agent.hidden=[16]",
    "agent.flow_steps=2",
    "agent.batch_size=16",
    "agent.learning_starts=5",
    "agent.pretrain_steps=20",
    "agent.offline_steps=100",
    "demonstrations.episodes=2",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "logging.progress=false",
]


def robo_rl(*words: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*words])
    assert not caught.value.code


def test_offline_training_continues_online_bit_for_bit(tmp_path: Path) -> None:
    train = ["train", *TRAIN, "agent=fql"]
    robo_rl(*train, f"run.dir={tmp_path}/unbroken", "run.env_steps=15")
    robo_rl(*train, f"run.dir={tmp_path}/run", "run.env_steps=0")
    (offline,) = (record for record in records(tmp_path / "run", "train") if "offline_update" in record)
    assert offline["offline_update"] == 100 and {"critic_loss", "flow_loss"} <= offline.keys()
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["env_steps"] == 0
    robo_rl("train", f"resume={tmp_path}/run", "run.env_steps=15")
    first, second = newest_state(tmp_path / "unbroken"), newest_state(tmp_path / "run")
    assert first["agent/critic_updates"] == 100 + 11, "one update for each step from the fifth on"
    assert first.keys() == second.keys()
    for key in first.keys() - {"agent/generator/evaluation", "agent/plan/actions"}:  # one more evaluation
        np.testing.assert_array_equal(first[key], second[key], err_msg=key, strict=True)


def test_qc_learns_without_demonstrations(tmp_path: Path) -> None:
    words = ["agent=qc", "agent.offline_steps=0", "demonstrations.episodes=0", "logging.train_interval=1"]
    robo_rl("train", *TRAIN, *words, f"run.dir={tmp_path}/run", "run.env_steps=8")
    updates = [record for record in records(tmp_path / "run", "train") if "critic_loss" in record]
    assert newest_state(tmp_path / "run")["agent/critic_updates"] == 4 and len(updates) == 4
    assert not any("offline_update" in record for record in updates)

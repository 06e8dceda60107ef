"""Runs of the agents with a flow and critics: from demonstrations alone, and on from there online."""

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


@pytest.mark.parametrize("agent", ["fql"])
def test_offline_training_goes_on_online_bit_for_bit(agent: str, tmp_path: Path) -> None:
    train = ["train", *TRAIN, f"agent={agent}"]
    robo_rl(*train, f"run.dir={tmp_path}/unbroken", "run.env_steps=15")
    robo_rl(*train, f"run.dir={tmp_path}/run", "run.env_steps=0")
    (offline,) = (record for record in records(tmp_path / "run", "train") if "offline_update" in record)
    assert offline["offline_update"] == 100 and {"critic_loss", "flow_loss"} <= offline.keys()
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["env_steps"] == 0
    robo_rl("train", f"resume={tmp_path}/run", "run.env_steps=15")
    first, second = newest_state(tmp_path / "unbroken"), newest_state(tmp_path / "run")
    assert first["agent/critic_updates"] == 100 + 11, "one update for each step from the fifth on"
    assert first.keys() == second.keys()
    for key in first.keys() - {"agent/generator/evaluation", "agent/plan/actions"}:  # of one more evaluation
        np.testing.assert_array_equal(first[key], second[key], err_msg=key, strict=True)

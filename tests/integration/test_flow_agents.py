"""Runs of the agents with a flow and critics: offline, continued online, without demonstrations, and from a flow."""

import json
from pathlib import Path

import numpy as np
import pytest

from robo_rl.cli import main

from ..rigs.command_line import exit_code
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
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "logging.progress=false",
]


def robo_rl(*words: str) -> None:
    assert not exit_code(*words)


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


def test_a_cloned_flow_is_steered_by_a_run_that_starts_from_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [word for word in TRAIN if not word.startswith(("agent.offline", "agent.learning"))]
    robo_rl("train", *common, "agent=flow", "run.env_steps=0", f"run.dir={tmp_path}/flow")
    steered = ["train", *common, "agent=dsrl", "agent.learning_starts=5", "agent.actor_delay=8"]
    with pytest.raises(SystemExit) as refused:
        main([*steered, "demonstrations.episodes=0", f"run.dir={tmp_path}/none"])
    assert refused.value.code == 2 and "give start.run=RUN" in capsys.readouterr().err
    for name, steps in (("unbroken", 14), ("run", 8)):  # in mid-chunk
        robo_rl(*steered, f"start.run={tmp_path}/flow", f"run.dir={tmp_path}/{name}", f"run.env_steps={steps}")
    assert "agent flow" in capsys.readouterr().out
    robo_rl("train", f"resume={tmp_path}/run", "run.env_steps=14")
    first, second = newest_state(tmp_path / "unbroken"), newest_state(tmp_path / "run")
    assert first["agent/critic_updates"] == 40 and first["policy/steered"] == 1
    for key in first.keys() - {"agent/generator/evaluation", "agent/plan/actions", "agent/plan/left"}:
        np.testing.assert_array_equal(first[key], second[key], err_msg=key, strict=True)
    flow = newest_state(tmp_path / "flow")
    for key in (key for key in flow if key.startswith("policy/averaged/flow/")):
        np.testing.assert_array_equal(first[key], flow[key], err_msg=key)

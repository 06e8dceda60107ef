"""Reinforcement-learned data: successes of a run's policy become demonstrations, alone or with others, and a clone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.app import load_policy
from robo_rl.core import Source
from robo_rl.replay import EpisodeStore

from ..rigs.command_line import robo_rl

SHORT = ["run.evaluation_interval=0", "run.final_evaluation_episodes=4", "run.video_episodes=0", "runtime.threads=1"]
CLONE = ["task=reach", "agent.hidden=[64]", "agent.batch_size=64", "run.env_steps=0", *SHORT]
TAUGHT = ["agent.pretrain_steps=1500", "demonstrations.episodes=20", "demonstrations.source=expert"]
RESIDUAL = ["agent=residual", "agent.hidden=[32]", "agent.batch_size=32", "agent.update_to_data=2"]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a clone, a run that corrects it, and a data set of that run's successes."""
    folder = tmp_path_factory.mktemp("learned")
    robo_rl("train", *CLONE, "agent=bc", *TAUGHT, f"run.dir={folder}/bc")
    words = [*RESIDUAL, *SHORT, f"base.run={folder}/bc", "demonstrations.episodes=2", "run.env_steps=20"]
    robo_rl("train", "task=reach", *words, f"run.dir={folder}/rl")
    robo_rl("collect", f"policy={folder}/rl", f"output={folder}/data", "episodes=3", "only_successful=true", "seed=7")
    return folder


def test_successes_alone_are_kept_with_the_run_checkpoint_and_seed(learned: Path) -> None:
    with EpisodeStore.open(learned / "data") as store:
        facts: dict[str, Any] = dict(store.metadata)
        assert [record.success for record in store.records] == [True] * 3
        steps = [step for number in range(3) for step in store.episode(number)]
    origin = facts["collected_from"]
    assert (origin["run"], origin["task"], origin["agent"], origin["step"]) == (
        "rl",
        "reach",
        "residual",
        facts["step"],
    )
    assert facts["seed"] == 7 and facts["source"] == "policy"
    assert all(step.source == Source.POLICY and step.policy_version == facts["step"] for step in steps)
    described = robo_rl("data", "describe", f"path={learned}/data")
    assert f"Collected   3 episodes from rl (task reach, agent residual, step {facts['step']}" in described


def test_the_base_of_a_run_is_part_of_what_is_cloned(learned: Path, tmp_path: Path) -> None:
    """The data set is one of the task: for every run, with this base or another one or none."""
    with EpisodeStore.open(learned / "data") as store:
        assert "base_action" not in store.spec.observation and "base_policy" not in store.spec.extra
        assert store.spec.differences(load_policy(learned / "bc").spec) == []
    data = [f"demonstrations.path={learned}/data", "demonstrations.episodes=3"]
    robo_rl("train", *CLONE, "agent=bc", "agent.pretrain_steps=20", *data, f"run.dir={tmp_path}/clone")
    words = [*RESIDUAL, *SHORT, f"base.run={tmp_path}/clone", *data, "run.env_steps=12"]
    output = robo_rl("train", "task=reach", *words, f"run.dir={tmp_path}/again")
    assert "of the demonstrated actions are within 0.2 of those of the base" in output


def test_a_clone_imitates_what_the_run_did(learned: Path, tmp_path: Path) -> None:
    data = [f"demonstrations.path={learned}/data", "demonstrations.episodes=3"]
    robo_rl("train", *CLONE, "agent=bc", "agent.pretrain_steps=600", *data, f"run.dir={tmp_path}/clone")
    policy = load_policy(tmp_path / "clone").policy
    with EpisodeStore.open(learned / "data") as store:
        steps = [step for number in range(3) for step in store.episode(number)]
    errors = [np.abs(policy.act(step.observation, explore=False) - step.proposed_action).mean() for step in steps]
    scale = np.abs(np.stack([step.proposed_action for step in steps])).mean()
    assert np.mean(errors) < 0.5 * scale


def test_a_merged_data_set_knows_where_each_episode_is_from(learned: Path, tmp_path: Path) -> None:
    words = [f"path={learned}/data", f"merge=[{learned}/bc/demonstrations]", f"output={tmp_path}/both"]
    robo_rl("data", "edit", *words)
    with EpisodeStore.open(tmp_path / "both") as store:
        origins = store.metadata["origins"]
        assert len(store) == 23 and "collected_from" not in store.metadata
    assert [each.get("collected_from", {}).get("run") for each in origins] == ["rl"] * 3 + [None] * 20
    again = [f"path={tmp_path}/both", f"output={tmp_path}/fewer", "drop=[0,8]"]
    robo_rl("data", "edit", *again)
    assert "Collected   2 episodes from rl (" in robo_rl("data", "describe", f"path={tmp_path}/fewer")
    flow = ["agent=flow", "agent.pretrain_steps=5", "agent.flow_steps=2", "demonstrations.episodes=23"]
    robo_rl("train", *CLONE, *flow, f"demonstrations.path={tmp_path}/both", f"run.dir={tmp_path}/flow")

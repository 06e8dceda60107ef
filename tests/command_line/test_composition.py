"""Compositions share what is registered, and a user's files may still say everything that Hydra reads."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from robo_rl.app import register_all_configs
from robo_rl.commands import train

from ..rigs.command_line import exit_code


def _registered() -> str:
    return repr(ConfigStore.instance().repo)


def test_a_composition_leaves_what_is_registered_as_it_was() -> None:
    register_all_configs()
    before = _registered()
    words = ["task=reach", "agent=drq", "reward=vice", "agent.gamma=0.5", "+task.new=1", "run.env_steps=5"]
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        first = compose("train", overrides=words)
        first.agent.gamma = 0.25
        second = compose("train", overrides=[word for word in words if "gamma" not in word])
    assert _registered() == before
    assert second.agent.gamma not in (0.25, 0.5) and second.run.env_steps == 5


def test_a_file_of_the_user_may_set_the_mode_of_hydra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "how").mkdir()
    (tmp_path / "how" / "often.yaml").write_text("# @package _global_\nhydra:\n  mode: MULTIRUN\n")
    seeds: list[int] = []

    def run(config: DictConfig) -> int:
        seeds.append(config.seed)
        return 0

    monkeypatch.setattr(train, "run", run)
    monkeypatch.chdir(tmp_path)
    for words in ([f"--config-dir={tmp_path}", "+how=often"], ["hydra.mode=MULTIRUN"], ["-m"]):
        assert not exit_code("train", *words, "seed=3,4")
    assert seeds == [3, 4] * 3

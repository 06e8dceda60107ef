"""docs/guide/robot.md: a six-joint arm by configuration alone, on the simulated robot over DDS."""

import json
import os
import subprocess

import pytest

from robo_rl.core import ConfigError
from robo_rl.core.search_path import CONFIG_PATH_VARIABLE, config_folders

from ..rigs.guide import SMALL, Reader
from ..rigs.ros2_domain import free_domain

PATIENCE = [f"robot.sources.{name}.max_age=3" for name in ("joints", "object", "rewards")]
"""The simulated robot shares a busy machine with the tests."""


def test_the_arm_is_trained_on_the_simulated_robot(tmp_path):
    with free_domain() as domain:
        reader = Reader("robot.md", tmp_path, ROBO_RL_CONFIG_PATH=str(tmp_path), **domain)
        reader.write_files()
        assert "six_joint_arm" in reader.follow("robo-rl train", "--cfg", "job")
        robot = reader.start("robo-rl robot")
        try:
            assert "Ctrl-C ends it" in robot.stdout.readline()
            options = ["run.env_steps=40", "demonstrations.episodes=0", "robot.start_timeout=60", *PATIENCE]
            reader.follow("robo-rl train task=reach_six robot=six_joint_arm reward", *SMALL, *options)
            summary = json.loads((tmp_path / "runs/six/summary.json").read_text())
            assert summary["status"] == "completed" and summary["env_steps"] >= 40
            assert "2 episodes" in reader.follow("robo-rl eval", "episodes=2")
        finally:
            robot.kill()
            robot.communicate()
        del reader.environment[CONFIG_PATH_VARIABLE]
        evaluation = ["robo-rl", "eval", "run=runs/six", "episodes=1"]
        with pytest.raises(
            AssertionError, match=r"was made with robot=six_joint_arm, which is not a choice here.*--config-"
        ):
            reader.run(evaluation)
        with pytest.raises(AssertionError, match="then give on_robot=true"):
            reader.run([*evaluation, "--config-dir", "."])


def test_folders_hold_for_as_long_as_they_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv(CONFIG_PATH_VARIABLE, "/elsewhere")
    with config_folders([str(tmp_path)]):
        assert os.environ[CONFIG_PATH_VARIABLE] == f"{tmp_path}{os.pathsep}/elsewhere"
        output = subprocess.run(["printenv", CONFIG_PATH_VARIABLE], capture_output=True, text=True, check=True).stdout
        assert output.startswith(str(tmp_path)), "processes that are started have them too"
    assert os.environ[CONFIG_PATH_VARIABLE] == "/elsewhere"
    with pytest.raises(ConfigError, match="--config-dir: there is no folder 'nowhere'"), config_folders(["nowhere"]):
        pass

"""docs/guide/task.md: a task in a package of its own is trained, evaluated and used from Python."""

import json

import pytest

from robo_rl.core import ConfigError
from robo_rl.sim import TASKS, register_task
from robo_rl.sim.tasks.push_cube import PushCube

from ..rigs.guide import SMALL, Reader


def test_the_package_is_installed_and_trained(tmp_path):
    reader = Reader("task.md", tmp_path)
    reader.write_files()
    reader.install()
    reader.follow("robo-rl train task=push_block", *SMALL)
    summary = json.loads((tmp_path / "runs/push/summary.json").read_text())
    assert (summary["task"], summary["env_steps"]) == ("push_block", 200)
    assert "push_block, policy of step 200, 2 episodes" in reader.follow("robo-rl eval", "episodes=2", "video=null")
    assert reader.run_python() == "True\n"


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(ConfigError, match="there is a task 'reach' already"):
        register_task("reach", PushCube)
    assert TASKS["reach"] is not PushCube

"""A person beside a training: takes over with a gamepad over ROS 2, and steers by services, from another process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl.cli import main

from ..rigs import steering_operator
from ..rigs.ros2_domain import free_domain
from ..rigs.run_folder import records

OPTIONS = [
    "task=reach",
    "demonstrations.episodes=0",
    "agent.hidden=[8]",
    "agent.ensemble_size=2",
    "agent.implementation=torch",
    "agent.learning_starts=100000",
    "run.env_steps=100000",
    "run.evaluation_interval=0",
    "runtime.threads=1",
    "logging.progress=false",
    "task.max_episode_steps=100000",
    "teleop.device=joy",
    "teleop.implementation=dds",
    "steering=ros2",
    "steering.implementation=dds",
]


def test_a_person_takes_over_and_steers_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = tmp_path / "stop"
    with free_domain() as environment:
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        operator = subprocess.Popen(
            [sys.executable, steering_operator.__file__, str(stop), str(os.getpid())],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            with pytest.raises(SystemExit) as ended:
                main(["train", *OPTIONS, f"run.dir={tmp_path}/run", f"safety.emergency_stop.file={stop}"])
            output, _ = operator.communicate(timeout=60)
        finally:
            operator.kill()
    assert operator.returncode == 0, output
    assert ended.value.code == 128 + 15
    # The task's own success may have ended some; then the pause, the reset and the emergency stop ended one each.
    cut = [line for line in records(tmp_path / "run", "episode") if not line["success"]]
    assert [line["stopped"] for line in cut] == [None, None, "emergency_stop"]

"""A person beside a training: takes over with a gamepad over ROS 2, and steers by services, from another process."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from robo_rl.drivers.ros2 import Node, open_node
from robo_rl.safety import EmergencyStop
from robo_rl.telemetry.logger import read_metrics

from ..ros2_domain import free_domain
from ..ros2_rig import wait_until

PATIENCE_SECONDS = 300.0
"""For a process to start on a busy machine."""

OPTIONS = [
    "task=reach",
    "demonstrations.episodes=0",
    "agent.hidden=[8]",
    "agent.ensemble_size=2",
    "agent.backend=torch",
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


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    with free_domain() as variables:
        for key, value in variables.items():
            monkeypatch.setenv(key, value)
        yield {**os.environ, **variables}


class Operator:
    """Another process's view of the training."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.statuses: list[Any] = []
        node.create_subscription("diagnostic_msgs/msg/DiagnosticArray", "diagnostics", self._hear)
        self.joy = node.create_publisher("sensor_msgs/msg/Joy", "joy")

    def _hear(self, message: Any) -> None:
        self.statuses.append(message.status[0])

    def press(self, name: str) -> None:
        kind = "std_srvs/srv/Trigger"
        answer = self.node.create_client(kind, f"robo_rl/{name}").call(self.node.types.make(f"{kind}_Request"), 60.0)
        assert answer.success, answer.message

    def move(self, forward: float) -> None:
        axes = [0.0, forward, 0.0, 0.0, 0.0]
        self.joy.publish(self.node.types.make("sensor_msgs/msg/Joy", axes=axes, buttons=[0] * 8))

    def wait_for(self, state: str, level: int, forward: float | None = None) -> dict[str, str]:
        """Wait until diagnostics tell ``state``, deflecting the stick meanwhile, and return their values."""
        self.statuses.clear()

        def told() -> bool:
            if forward is not None:
                self.move(forward)
            return any(status.message.startswith(state) for status in self.statuses)

        wait_until(told, PATIENCE_SECONDS)
        status = next(status for status in self.statuses if status.message.startswith(state))
        assert status.level == level, status
        return {each.key: each.value for each in status.values}


def test_a_person_takes_over_and_steers_a_training(tmp_path: Path, environment: dict[str, str]) -> None:
    stop = tmp_path / "stop"
    words = [*OPTIONS, f"run.dir={tmp_path}/run", f"safety.emergency_stop.file={stop}"]
    process = subprocess.Popen([sys.executable, "-m", "robo_rl.cli", "train", *words], env=environment)
    try:
        with open_node("operator", implementation="dds") as node:
            operator = Operator(node)
            operator.wait_for("the policy has control", 0, forward=0)
            operator.wait_for("a person has control", 0, forward=1)
            facts = operator.wait_for("the policy has control", 0, forward=0)
            taken_over = int(facts["steps_by_a_person"])
            assert 0 < taken_over < int(facts["steps"])
            operator.press("pause")
            steps = operator.wait_for("paused", 1)["steps"]
            time.sleep(0.3)
            assert operator.wait_for("paused", 1)["steps"] == steps, "no step while it is paused"
            operator.press("start")
            operator.wait_for("the policy has control", 0)
            operator.press("reset")
            operator.wait_for("the policy has control", 0)
            operator.press("emergency_stop")
            assert stop.exists(), "latched before the answer came"
            operator.wait_for("stopped: ", 2)
            EmergencyStop(stop).rearm()
            operator.wait_for("the policy has control", 0)
            process.terminate()
            assert process.wait(PATIENCE_SECONDS) == 128 + 15
    finally:
        process.kill()
    lines = list(read_metrics(tmp_path / "run" / "metrics.jsonl"))
    episodes = [line for line in lines if line["kind"] == "episode"]
    assert len(episodes) == 3, "the pause ended one, the reset and the emergency stop the others"
    assert all(line["success"] in (False, None) for line in episodes)
    assert episodes[-1]["stopped"] == "emergency_stop"

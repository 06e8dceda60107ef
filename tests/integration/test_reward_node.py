"""robo-rl reward publish: scores the virtual robot over real DDS, and a driver takes its success from there."""

import signal
from pathlib import Path
from typing import Any

import pytest

from robo_rl.drivers.ros2 import Node, open_node

from ..rigs.command_line import Forked
from ..rigs.robot_rig import begin, patient_driver, towards_goal, virtual_robot, wait_until
from ..rigs.ros2_domain import free_domain

RCL = "rcl_interfaces/srv"
CODE = """
def reward(to_goal_x, to_goal_y, to_goal_z):
    return -((to_goal_x**2 + to_goal_y**2 + to_goal_z**2) ** 0.5)
"""


def lifecycle(values: dict[str, str]) -> str:
    return values["lifecycle"]


def call(node: Node, service: str, kind: str, **fields: Any) -> Any:
    return node.create_client(kind, service).call(node.types.make(f"{kind}_Request", **fields), 60.0)


def test_success_comes_from_a_reward_module_beside_the_robot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reward.py").write_text(CODE)
    with free_domain() as domain, virtual_robot(domain, "virtual.watchdog.stop_after=5"):
        for key, value in domain.items():
            monkeypatch.setenv(key, value)
        words = ["task=reach", "robot=virtual", "reward=composed", "+reward/module@reward.modules.distance=code"]
        words += [f"reward.modules.distance.file={tmp_path}/reward.py", "publish.threshold=-100"]
        process = Forked("reward", "publish", *words)
        backend = patient_driver("+robot/scores=node", "robot.sources.rewards.max_age=5")
        try:
            assert backend.spec.reports_success
            with open_node("person", implementation="dds") as node:
                diagnosed: list[dict[str, str]] = []

                def hear(message: Any) -> None:
                    if message.status[0].name.startswith("/reward"):
                        diagnosed.append({each.key: each.value for each in message.status[0].values})

                node.create_subscription("diagnostic_msgs/msg/DiagnosticArray", "diagnostics", hear)
                success = node.create_subscription("std_msgs/msg/Bool", "reward/success")
                wait_until(lambda: process.poll() is not None or "active" in map(lifecycle, diagnosed), 120)
                assert float(diagnosed[-1]["distance"]) < 0 and diagnosed[-1]["success"] == "1"
                begin(backend)
                assert backend.step(towards_goal(begin(backend).observation)).terminated, "the threshold is low"

                names = ["publish.threshold", "task.name", "publish.rate"]
                found = call(node, "reward/get_parameters", f"{RCL}/GetParameters", names=names).values
                assert (found[0].double_value, found[1].string_value, found[2].double_value) == (-100.0, "reach", 20.0)
                threshold = {"name": "publish.threshold", "value": {"type": 3, "double_value": -0.03}}
                results = call(node, "reward/set_parameters", f"{RCL}/SetParameters", parameters=[threshold]).results
                assert results[0].successful, results[0].reason
                wait_until(lambda: not success.latest()[0].data)
                while True:
                    step = begin(backend)
                    distances = []
                    while not step.ended:
                        step = backend.step(towards_goal(step.observation))
                        distances.append(float((step.observation["object"][:3] ** 2).sum() ** 0.5))
                    if step.terminated:  # else the machine was too slow for the time limit
                        break
                assert step.success and step.rewards["success"] == 1.0
                assert len(distances) > 1 and distances[-1] < 0.06

                noise = {"name": "camera_noise", "value": {"type": 3, "double_value": 99.0}}
                fixed = {"name": "state_rate", "value": {"type": 3, "double_value": 10.0}}
                results = call(
                    node, "virtual_robot/set_parameters", f"{RCL}/SetParameters", parameters=[noise, fixed]
                ).results
                assert results[0].reason == "virtual.camera_noise must be in [0, 50], got 99.0"
                assert results[1].reason == "state_rate is read-only"

                assert call(node, "reward/pause", "std_srvs/srv/Trigger").success
                wait_until(lambda: diagnosed[-1]["lifecycle"] == "inactive", 30)
        finally:
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
            backend.close()
    assert process.returncode == 130, output
    assert "Scores robot virtual" in output

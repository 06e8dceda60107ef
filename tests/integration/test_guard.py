"""robo-rl guard: stops a robot that somebody else drives too far, or that falls silent, over real DDS."""

import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.core import EmergencyStop, EnvBackend, GuardBeat, OwnStop, SafetyStop, StopButton
from robo_rl.drivers.robot.own_stop import rearm_robot
from robo_rl.drivers.ros2 import Node, open_node
from robo_rl.safety import make_safe_backend

from ..rigs.command_line import Forked
from ..rigs.robot_rig import begin, patient_driver, virtual_robot, wait_until
from ..rigs.ros2_domain import free_domain

TRIGGER = "std_srvs/srv/Trigger"


def call(node: Node, service: str) -> Any:
    return node.create_client(TRIGGER, service).call(node.types.make(f"{TRIGGER}_Request"), 60.0)


def hung_guards_stop_who_drives(backend: EnvBackend, guard: Forked) -> None:
    """A driver with safety obeys the guard's heartbeat; it goes on when the guard does."""
    safe = make_safe_backend(backend, button=StopButton(None, guard=GuardBeat("virtual")))
    still = np.zeros(backend.spec.action.shape, np.float32)
    begin(safe)
    guard.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(SafetyStop, match="the guard of robot 'virtual' has not looked for") as caught:
            while time.monotonic() < began + 60:
                if safe.step(still).ended:
                    safe.reset(0)
        assert caught.value.reason == "guard_silent" and caught.value.waits
        with pytest.raises(SafetyStop, match="has not looked for"):
            safe.reset(0)
    finally:
        guard.send_signal(signal.SIGCONT)
    wait_until(lambda: GuardBeat("virtual").missed() is None, 30)
    begin(safe)


def test_a_robot_is_stopped_whoever_drives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = tmp_path / "stop"
    with free_domain() as domain, virtual_robot(domain, "virtual.watchdog.stop_after=5") as robot:
        for key, value in domain.items():
            monkeypatch.setenv(key, value)
        backend = patient_driver()
        first = begin(backend)
        names = backend.spec.observation["state"].names
        x = names.index("end_effector_x")
        edge = float(first.observation["state"][x]) + 0.1
        # This process drives without any safety of its own.
        words = ["task=reach", "robot=virtual", f"task.controller.workspace_high=[{edge},1,2]"]
        words += ["guard.workspace_tolerance=0", f"safety.emergency_stop.file={stop}", "steering.implementation=dds"]
        words += ["guard.silence=3"]  # a busy machine may hold up the robot for longer than by default
        guard = Forked("guard", *words)
        try:
            with open_node("operator", implementation="dds") as node:
                heard: list[dict[str, str]] = []

                def hear(message: Any) -> None:
                    if message.status[0].name.startswith("/safety_guard"):
                        heard.append({each.key: each.value for each in message.status[0].values})

                node.create_subscription("diagnostic_msgs/msg/DiagnosticArray", "diagnostics", hear)

                def is_said(lifecycle: str) -> bool:
                    return bool(heard) and heard[-1]["lifecycle"] == lifecycle

                wait_until(lambda: is_said("active"), 120)
                assert not stop.exists()
                begin(backend)
                action = np.zeros(backend.spec.action.shape, np.float32)
                action[0] = 0.5
                seen = 0.0
                with pytest.raises(SafetyStop, match="does not obey commands any more"):
                    for _ in range(60):
                        seen = float(backend.step(action).observation["state"][x])
                assert seen > edge - 0.05, "it was free to move before"
                assert "safety guard: the end effector is at (" in stop.read_text()
                wait_until(lambda: is_said("inactive"), 30)
                with pytest.raises(SafetyStop, match="rearm takes it back"):
                    backend.reset(0)
                facts = OwnStop("virtual").facts()
                assert facts is not None and rearm_robot(**facts) == (True, "the next reset begins an episode")
                begin(backend)
                kind = "rcl_interfaces/srv/SetParameters"
                loose = {"name": "guard.speed_factor", "value": {"type": 3, "double_value": 9.0}}
                client = node.create_client(kind, "safety_guard/set_parameters")
                answer = client.call(node.types.make(f"{kind}_Request", parameters=[loose]), 60.0)
                assert answer.results[0].reason == "guard.speed_factor is read-only"
                EmergencyStop(stop).rearm()
                wait_until(lambda: is_said("active"), 30)
                assert (call(node, "safety_guard/pause").success, call(node, "safety_guard/start").success) == (
                    True,
                    True,
                )
                wait_until(lambda: is_said("active"), 30)
                hung_guards_stop_who_drives(backend, guard)
                robot.send_signal(signal.SIGSTOP)
                wait_until(stop.exists, 60)
                wait_until(lambda: "has been silent for" in stop.read_text(), 10)
        finally:
            guard.send_signal(signal.SIGINT)
            output, _ = guard.communicate(timeout=60)
            backend.close()
    assert guard.returncode == 130, output
    assert "the robot's own emergency stop: the emergency stop is pressed" in output

"""A person in a process of their own, beside a training.

``python tests/rigs/steering_operator.py EMERGENCY_STOP_FILE PID`` is that process.

Takes over by a gamepad over ROS 2 and steers by services, checks what diagnostics tell, and ends the training, whose
process is PID, by SIGTERM.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from robo_rl.core import EmergencyStop
from robo_rl.drivers.ros2 import Node, open_node

TRIGGER = "std_srvs/srv/Trigger"
PATIENCE_SECONDS = 150.0
"""For a busy machine; less than the test waits for the process, whose message says what did not happen."""


class Operator:
    """Presses, moves and looks."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.statuses: list[Any] = []
        node.create_subscription("diagnostic_msgs/msg/DiagnosticArray", "diagnostics", self._hear)
        self.joy = node.create_publisher("sensor_msgs/msg/Joy", "joy")

    def _hear(self, message: Any) -> None:
        self.statuses.append(message.status[0])

    def press(self, name: str) -> None:
        client = self.node.create_client(TRIGGER, f"robo_rl/{name}")
        answer = client.call(self.node.types.make(f"{TRIGGER}_Request"), PATIENCE_SECONDS)
        assert answer.success, answer.message

    def wait_for(self, state: str, level: int, forward: float) -> dict[str, str]:
        """Deflect the stick until diagnostics tell ``state``, and return their values."""
        self.statuses.clear()
        joy = self.node.types.make("sensor_msgs/msg/Joy", axes=[0.0, forward, 0.0, 0.0, 0.0], buttons=[0] * 8)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            self.joy.publish(joy)
            for status in list(self.statuses):
                if status.message.startswith(state):
                    assert status.level == level, status
                    return {each.key: each.value for each in status.values}
            assert time.monotonic() < deadline, f"never told: {state}; last: {self.statuses[-1:]}"
            time.sleep(0.02)


def settings(node: Node, *names: str) -> list[str]:
    """Return texts that the training offers as parameters."""
    kind = "rcl_interfaces/srv/GetParameters"
    client = node.create_client(kind, "robo_rl/get_parameters")
    answer = client.call(node.types.make(f"{kind}_Request", names=list(names)), PATIENCE_SECONDS)
    return [value.string_value for value in answer.values]


def operate(operator: Operator, stop: Path) -> None:
    """Do all that a person may."""
    policy, person = "the policy has control", "a person has control"
    operator.wait_for(policy, 0, forward=0)
    assert settings(operator.node, "task.name", "teleop.device") == ["reach", "joy"]
    operator.wait_for(person, 0, forward=1)
    facts = operator.wait_for(policy, 0, forward=0)
    assert 0 < int(facts["steps_by_a_person"]) < int(facts["steps"]), facts
    operator.press("pause")
    steps = operator.wait_for("paused", 1, forward=0)["steps"]
    assert operator.wait_for("paused", 1, forward=1)["steps"] == steps, "a step while it is paused"
    operator.press("start")
    operator.wait_for(policy, 0, forward=0)
    operator.press("reset")
    operator.wait_for(policy, 0, forward=0)
    operator.press("emergency_stop")
    assert stop.exists(), "the answer came before the stop was latched"
    operator.wait_for("stopped: ", 2, forward=0)
    EmergencyStop(stop).rearm()
    operator.wait_for(policy, 0, forward=0)


if __name__ == "__main__":
    try:
        with open_node("operator", implementation="dds") as opened:
            operate(Operator(opened), Path(sys.argv[1]))
    finally:
        os.kill(int(sys.argv[2]), signal.SIGTERM)

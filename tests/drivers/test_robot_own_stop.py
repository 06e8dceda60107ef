"""Re-arming of a robot's own controller from a process that may belong to another domain, by a record on disk."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.core import DriverError, OwnStop
from robo_rl.drivers.robot.own_stop import rearm_facts, rearm_robot
from robo_rl.drivers.ros2 import open_node
from robo_rl.operators.rearming import find_holds, release_holds

from ..rigs.ros2_domain import free_domain
from ..rigs.ros2_rig import TRIGGER


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def robot() -> Iterator[dict[str, str]]:
    """A robot in a domain of its own; the arguments for re-arming it."""
    with free_domain() as environment, pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with open_node("robot", implementation="dds") as node:
            response = node.types.make(f"{TRIGGER}_Response", success=True, message="free")
            node.create_service(TRIGGER, "/rearm", lambda _: response)
            config: Any = SimpleNamespace(
                rearm_service="/rearm", name="lab", namespace="", implementation="dds", discovery_range="LOCALHOST"
            )
            yield rearm_facts(config)


@pytest.mark.parametrize("own", [None, "0", "101"])
def test_a_process_of_another_domain_rearms_and_stays_in_its_own(
    robot: dict[str, str], own: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if own is None:
        monkeypatch.delenv("ROS_DOMAIN_ID")
    else:
        monkeypatch.setenv("ROS_DOMAIN_ID", own)
    before = dict(os.environ)
    assert rearm_robot(**robot) == (True, "free")
    assert dict(os.environ) == before


@pytest.mark.parametrize("variable", [None, "", "0"])
def test_a_robot_without_a_domain_belongs_to_domain_0(variable: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROS_DOMAIN_ID", raising=False)
    if variable is not None:
        monkeypatch.setenv("ROS_DOMAIN_ID", variable)
    config: Any = SimpleNamespace(
        rearm_service="/rearm", name="lab", namespace="", implementation="dds", discovery_range=""
    )
    assert rearm_facts(config)["domain"] == "0"


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("import time; time.sleep(60)", "was not called within 0.5 s"),
        ("import os; os.abort()", "was not called: its process ended with exit code -6"),
        ("raise ImportError('no rclpy')", "was not called: ImportError: no rclpy"),
        ("print('no answer')", "was not called: its process ended with exit code 0"),
        ('print(\'{"error": "no server"}\')', "no server"),
    ],
)
def test_a_call_that_hangs_or_dies_is_an_error(program: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "robo_rl.drivers.robot.own_stop"
    monkeypatch.setattr(f"{module}.own_command", lambda _: [sys.executable, "-c", program])
    monkeypatch.setattr(f"{module}.START_SECONDS", 0.5 if "sleep" in program else 60.0)
    monkeypatch.setattr(f"{module}.REARM_SECONDS", 0.0)
    with pytest.raises(DriverError, match=problem):
        rearm_robot("/rearm", "lab")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 4096,
        '{"service": 3}',
        '{"service": "/rearm"}',
        '{"service": "/rearm", "name": "lab", "other": "1"}',
        '{"service": "/rearm", "name": "lab", "_target_": "os.system", "command": "true"}',
        '{"service": "/rearm", "name": "\\ud800"}',
    ],
)
def test_a_record_that_is_damaged_keeps_no_other_latch_from_being_released(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def refuse(service: str, name: str, namespace: str = "") -> tuple[bool, str]:
        calls.append((service, name, namespace))
        return False, "no"

    monkeypatch.setattr("robo_rl.drivers.robot.own_stop.rearm_robot", refuse)
    own = OwnStop("lab")
    own.note({})
    own.file.write_text(text)
    released, failed = release_holds(find_holds("lab"))
    assert released == [] and len(failed) == 1 and failed[0].startswith("NOT re-armed: robot lab, its own controller")
    assert calls in ([], [("/rearm", "lab", "")]) and own.file.exists()

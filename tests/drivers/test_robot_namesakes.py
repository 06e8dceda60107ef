"""What is said of a name that nobody answers to: names of another robot, another namespace or another type."""

from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.core import ManualClock
from robo_rl.drivers.robot.config import ControllersConfig, ResetConfig
from robo_rl.drivers.robot.controllers import LIST, SWITCH, ControllerSwitch
from robo_rl.drivers.robot.namesakes import acted_instead, served_instead, unheard
from robo_rl.drivers.robot.resetting import ResetService

TRIGGER, TWIST, MOVE = "std_srvs/srv/Trigger", "geometry_msgs/msg/TwistStamped", "control_msgs/action/FollowTrajectory"


def laboratory(topics: dict[str, str] | None = None, services: dict[str, Any] | None = None) -> Any:
    """A node in a graph with these topics and services, none of which is served or heard under the configured name."""
    offered = {name: (kind,) if isinstance(kind, str) else kind for name, kind in (services or {}).items()}
    graph = SimpleNamespace(topics={name: (kind,) for name, kind in (topics or {}).items()}, services=offered)
    return SimpleNamespace(
        graph=graph, create_client=lambda kind, name: SimpleNamespace(service=f"/{name}", wait=lambda seconds: False)
    )


@pytest.mark.parametrize(
    ("services", "hint"),
    [
        ({}, ""),
        ({"/reset": TRIGGER}, ""),  # that is our own client
        ({"/left/reset": TRIGGER, "/right/reset": TRIGGER}, ": there is /left/reset, /right/reset"),
        ({"/left/arm/reset": TRIGGER, "/emergency_stop": TRIGGER}, ": there is /left/arm/reset"),
        ({"/left/reset": "std_srvs/srv/SetBool"}, ""),
        ({"/reset": ("std_srvs/srv/Empty", TRIGGER), "/left/reset": TRIGGER}, ": it is std_srvs/srv/Empty there"),
    ],
)
def test_a_reset_that_nobody_serves(services: dict[str, Any], hint: str) -> None:
    reset = ResetService(laboratory(services=services), ResetConfig("reset"), ManualClock(), "lab")
    assert reset.missing() == [f"no service reset ({TRIGGER}){hint}"]


def test_a_controller_manager_in_another_namespace() -> None:
    node = laboratory(services={"/left/manager/list_controllers": LIST, "/left/manager/switch_controller": SWITCH})
    switch = ControllerSwitch(node, ControllersConfig(["arm"], "manager"))
    assert switch.missing() == [
        f"no service /manager/{name}: there is /left/manager/{name}"
        for name in ("list_controllers", "switch_controller")
    ]


def test_commands_that_nobody_listens_to() -> None:
    publisher: Any = SimpleNamespace(topic="/servo/twist", message_type=TWIST)
    topics = {f"/arm_{number}/command": TWIST for number in range(5)} | {"/left/servo/twist": TWIST, "/pose": "Pose"}
    said = "/left/servo/twist, /arm_0/command, /arm_1/command, /arm_2/command"
    assert unheard(laboratory(topics), publisher) == f"nobody listens to /servo/twist: topics of this type are {said}"
    assert unheard(laboratory({"/servo/twist": TWIST}), publisher) == "nobody listens to /servo/twist"


def test_an_action_that_nobody_serves() -> None:
    services = {
        "/left/move/_action/send_goal": f"{MOVE}_SendGoal",
        "/left/move/_action/get_result": f"{MOVE}_GetResult",
        "/move/_action/send_goal": f"{MOVE}_SendGoal",  # our own client
        "/grip/_action/send_goal": "control_msgs/action/GripperCommand_SendGoal",
    }
    assert acted_instead(laboratory(services=services), "/move", MOVE) == ": actions of this type are /left/move"
    assert acted_instead(laboratory(), "/move", MOVE) == ""


def test_a_service_of_another_type_is_said_to_be_one() -> None:
    node = laboratory(services={"/reset": ("std_srvs/srv/SetBool",)})
    assert served_instead(node, "/reset", TRIGGER) == ": it is std_srvs/srv/SetBool there"

"""What is said of profiles that differ, found in rclpy's graph: stand-ins have rclpy's names."""

import importlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from robo_rl.drivers.ros2 import LATCHED, QoSProfile

BOOL, EMPTY = "std_msgs/msg/Bool", "std_msgs/msg/Empty"
ROUGH, RELIABLE = QoSProfile(reliability="best_effort"), QoSProfile()
OURS = "robo_rl.drivers.ros2.with_rclpy"


@pytest.fixture
def mismatches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def forget() -> None:
        for name in [name for name in sys.modules if name.startswith(OURS)]:
            del sys.modules[name]

    forget()
    for name in ("rclpy", "rclpy.duration", "rclpy.exceptions", "rclpy.qos"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    yield importlib.import_module(f"{OURS}.mismatches")
    forget()


def other(module: Any, profile: QoSProfile, kind: str = BOOL, node: str = "tool") -> Any:
    reliable, latched = profile.reliability == "reliable", profile.durability == "transient_local"
    qos = SimpleNamespace(
        reliability=module.ReliabilityPolicy.RELIABLE if reliable else None,
        durability=module.DurabilityPolicy.TRANSIENT_LOCAL if latched else None,
    )
    return SimpleNamespace(topic_type=kind, node_namespace="/", node_name=node, qos_profile=qos)


def ours(profile: QoSProfile, kind: str = BOOL) -> Any:
    return SimpleNamespace(topic="/stop", message_type=kind, qos=profile)


@pytest.mark.parametrize(
    ("theirs", "mine", "problems"),
    [
        ([RELIABLE], [LATCHED], 1),
        ([RELIABLE], [ROUGH, RELIABLE, LATCHED], 0),
        ([ROUGH], [ROUGH, RELIABLE, LATCHED], 0),
        ([LATCHED], [ROUGH, RELIABLE, LATCHED], 0),
        ([ROUGH], [RELIABLE, LATCHED], 2),
    ],
)
def test_a_topic_that_one_of_our_subscriptions_hears_is_no_problem(
    mismatches: Any, theirs: list[QoSProfile], mine: list[QoSProfile], problems: int
) -> None:
    publishers = [other(mismatches, profile) for profile in theirs]
    node = SimpleNamespace(get_publishers_info_by_topic=lambda topic: publishers)
    assert len(mismatches.find_problems(node, [], [ours(profile) for profile in mine])) == problems


@pytest.mark.parametrize(
    ("theirs", "problems"),
    [
        ([("robot", LATCHED)], 1),
        ([("robot", RELIABLE), ("robot", LATCHED)], 0),
        ([("robot", RELIABLE), ("tool", LATCHED)], 1),
        ([("robot", ROUGH), ("robot", RELIABLE), ("robot", LATCHED)], 0),
    ],
)
def test_a_topic_that_another_node_hears_by_one_of_its_subscriptions_is_no_problem(
    mismatches: Any, theirs: list[tuple[str, QoSProfile]], problems: int
) -> None:
    subscriptions = [other(mismatches, profile, node=name) for name, profile in theirs]
    node = SimpleNamespace(get_subscriptions_info_by_topic=lambda topic: subscriptions)
    assert len(mismatches.find_problems(node, [ours(RELIABLE)], [])) == problems


def test_another_type_is_a_problem_whatever_else_is_heard(mismatches: Any) -> None:
    endpoints = [other(mismatches, RELIABLE, EMPTY)]
    node = SimpleNamespace(
        get_publishers_info_by_topic=lambda topic: endpoints, get_subscriptions_info_by_topic=lambda topic: endpoints
    )
    mine = [ours(ROUGH), ours(RELIABLE)]
    assert "std_msgs/msg/Empty at /tool" in mismatches.find_problems(node, [], mine)[0].text
    assert "std_msgs/msg/Empty at /tool" in mismatches.find_problems(node, mine, [])[0].text

"""What can be held of the rclpy implementation where there is no ROS 2: stand-ins that take anything have its names."""

import importlib
import sys
from array import array
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from robo_rl.core import ConfigError, DriverError

OURS = "robo_rl.drivers.ros2.with_rclpy"
PACKAGES = {
    "rclpy": "action callback_groups clock context duration exceptions executors parameter qos signals",
    "a": "action",
    "rcl_interfaces": "msg",
    "rosidl_runtime_py": "utilities",
}


@pytest.fixture
def rclpy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Return how a module of the implementation is imported."""

    def forget() -> None:
        for name in [name for name in sys.modules if name.startswith(OURS)]:
            del sys.modules[name]

    forget()
    for package, modules in PACKAGES.items():
        for name in (package, *(f"{package}.{module}" for module in modules.split())):
            monkeypatch.setitem(sys.modules, name, MagicMock())
    yield lambda name: importlib.import_module(f"{OURS}.{name}")
    forget()


class Future:
    """rclpy's, without an executor."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Any], None]] = []
        self._result: Any = None

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def result(self) -> Any:
        return self._result

    def set_result(self, result: Any) -> None:
        self._result = result
        for callback in self._callbacks:
            callback(self)


def test_a_goal_that_is_accepted_too_late_is_cancelled(rclpy: Callable[[str], Any]) -> None:
    guard = rclpy("endpoints").Guard(MagicMock())
    client = rclpy("actions").RclpyActionClient(None, None, "a/action/B", "grip", None, guard)
    for accepted in (True, False):
        future, handle = Future(), MagicMock(accepted=accepted)
        client._client.send_goal_async.return_value = future
        with pytest.raises(DriverError, match=r"grip .* did not answer within 0.01 s"):
            client.send_goal(None, timeout_s=0.01)
        future.set_result(handle)
        assert handle.cancel_goal_async.called == accepted


def test_a_goal_ends_when_its_node_is_closed(rclpy: Callable[[str], Any]) -> None:
    node = rclpy("node").RclpyNode("lab")
    serve_action = rclpy("actions").ActionServer
    executed: list[Any] = []
    node.create_action_server("a/action/B", "grip", executed.append)
    *_, run = serve_action.call_args.args
    ends = []
    for asked in (False, True):
        handle = SimpleNamespace(
            request=None,
            is_active=False,
            is_cancel_requested=asked,
            canceled=lambda: ends.append("canceled"),
            abort=lambda: ends.append("aborted"),
        )
        run(handle)
    left, cancelled = executed
    assert (left.cancel_requested, cancelled.cancel_requested) == (False, True)
    node.close()
    assert left.cancel_requested
    left.canceled()
    cancelled.canceled()
    assert ends == ["aborted", "canceled"], "rclpy has nothing canceled that the client did not ask for"


class Part:
    """A message of rclpy's: fields that say of what type they are."""

    def __init__(self, **fields: tuple[str, Any]) -> None:
        self._types = {name: kind for name, (kind, _) in fields.items()}
        for name, (_, value) in fields.items():
            setattr(self, name, value)

    def get_fields_and_field_types(self) -> dict[str, str]:
        return self._types


def test_a_repeated_message_has_its_times_and_numbers_set(rclpy: Callable[[str], Any]) -> None:
    stamps = [Part(sec=("int32", 0), nanosec=("uint32", 0)) for _ in range(2)]
    headers = [Part(stamp=("builtin_interfaces/Time", stamp), frame_id=("string", "base")) for stamp in stamps]
    points = [Part(x=("double", 0.0), flag=("boolean", True)) for _ in range(2)]
    message = Part(
        header=("std_msgs/Header", headers[0]),
        name=("sequence<string>", ["a"]),
        position=("sequence<double>", array("d", [0.0, 0.0])),
        points=("sequence<geometry_msgs/Point>", points),
        covariance=("double[3]", np.zeros(3)),
        steps=("sequence<int32>", array("i", [7])),
        last=("std_msgs/Header", headers[1]),
    )
    inner = MagicMock(topic_name="/state")
    repeater = rclpy("endpoints").RclpyPublisher(inner, "a/msg/B", None).repeater(message)
    repeater.publish(SimpleNamespace(sec=1_500_000_000, nanosec=7), np.arange(7.0))
    assert inner.publish.call_args.args == (message,)
    assert [(stamp.sec, stamp.nanosec) for stamp in stamps] == [(1_500_000_000, 7)] * 2
    assert message.position == array("d", [0.0, 1.0]) and [point.x for point in points] == [2.0, 3.0]
    assert message.covariance.tolist() == [4.0, 5.0, 6.0]
    assert (message.name, message.steps, points[0].flag) == (["a"], array("i", [7]), True)
    with pytest.raises(ValueError, match=r"/state: expected 7 numbers, got \(6,\)"):
        repeater.publish(stamps[0], np.zeros(6))


def test_names_that_ros_2_does_not_allow_are_said_as_of_plain_dds(rclpy: Callable[[str], Any]) -> None:
    make = rclpy("node").RclpyNode
    for arguments, said in (
        (("7up",), "'7up' is no name of a ROS 2 node"),
        (("lab", "left-hand"), "'/left-hand' is no ROS 2 namespace"),
        (("lab", "", {"joints": "joint states"}), "'joint states' is no ROS 2 name"),
    ):
        with pytest.raises(ConfigError, match=said):
            make(*arguments)
    assert not sys.modules["rclpy"].init.called
    node = make("lab")
    for create in (
        node.create_publisher,
        node.create_subscription,
        node.create_client,
        lambda kind, name: node.create_service(kind, name, print),
        node.create_action_client,
        lambda kind, name: node.create_action_server(kind, name, print),
    ):
        create("a/action/B", "~/grip")
        with pytest.raises(ConfigError, match="'joint states' is no ROS 2 name"):
            create("a/action/B", "joint states")
    node.close()

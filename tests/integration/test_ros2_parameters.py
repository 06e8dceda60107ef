"""Parameters and logs of nodes of drivers/ros2, between processes over DDS on loopback."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from robo_rl.core import ConfigError
from robo_rl.drivers.ros2 import Node, QoSProfile, Subscription, open_node
from robo_rl.drivers.ros2.qos import ROSOUT

from ..rigs.ros2_domain import domain_of_peer, free_domain
from ..rigs.ros2_rig import call, wait_until

RCL = "rcl_interfaces/srv"
EVENT = "rcl_interfaces/msg/ParameterEvent"
LOG = "rcl_interfaces/msg/Log"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with domain_of_peer(), open_node("tester", implementation="dds") as opened:
        yield opened


def test_parameters_as_ros2_param_reads_them(node: Node) -> None:
    listed = call(node, f"{RCL}/ListParameters", "/peer/list_parameters").result
    names = ["even", "fixed", "limits.high", "limits.low", "names", "rate"]
    assert (listed.names, listed.prefixes) == (names, ["limits"])
    below = call(node, f"{RCL}/ListParameters", "/peer/list_parameters", prefixes=["limits"], depth=1).result
    assert below.names == ["limits.high", "limits.low"]
    shallow = call(node, f"{RCL}/ListParameters", "/peer/list_parameters", depth=1).result
    assert shallow.names == ["even", "fixed", "names", "rate"]
    names = ["rate", "names", "limits.low"]
    assert list(call(node, f"{RCL}/GetParameterTypes", "/peer/get_parameter_types", names=names).types) == [3, 9, 2]
    described = call(node, f"{RCL}/DescribeParameters", "/peer/describe_parameters", names=names).descriptors
    assert [(one.name, one.type) for one in described] == list(zip(names, [3, 9, 2], strict=True))
    rate, listed_names, low = call(node, f"{RCL}/GetParameters", "/peer/get_parameters", names=names).values
    assert rate.double_value == 25.0  # what the node was opened with, not the default
    assert (listed_names.string_array_value, low.integer_value) == (["a", "b"], -1)
    names = ["rate", "unknown"]  # as rclcpp and rclpy answer: all or nothing
    assert not len(call(node, f"{RCL}/GetParameterTypes", "/peer/get_parameter_types", names=names).types)
    assert not call(node, f"{RCL}/DescribeParameters", "/peer/describe_parameters", names=names).descriptors
    assert not call(node, f"{RCL}/GetParameters", "/peer/get_parameters", names=names).values


def test_parameters_as_ros2_param_sets_them(node: Node) -> None:
    def value(name: str, kind: int, **fields: Any) -> dict[str, Any]:
        return {"name": name, "value": {"type": kind, **fields}}

    low = value("limits.low", 2, integer_value=-5)
    wrong = value("rate", 4, string_value="fast")
    unknown = value("unknown", 2, integer_value=1)
    results = call(node, f"{RCL}/SetParameters", "/peer/set_parameters", parameters=[low, wrong, unknown]).results
    assert [(one.successful, one.reason) for one in results] == [
        (True, ""),
        (False, "expected double, got string"),
        (False, "unknown was not declared"),
    ]
    both = [value("limits.low", 2, integer_value=-7), wrong]
    result = call(node, f"{RCL}/SetParametersAtomically", "/peer/set_parameters_atomically", parameters=both).result
    assert not result.successful
    held = call(node, f"{RCL}/GetParameters", "/peer/get_parameters", names=["limits.low"]).values
    assert held[0].integer_value == -5
    both[1] = value("names", 9, string_array_value=["c"])
    result = call(node, f"{RCL}/SetParametersAtomically", "/peer/set_parameters_atomically", parameters=both).result
    assert result.successful
    held = call(node, f"{RCL}/GetParameters", "/peer/get_parameters", names=["limits.low", "names"]).values
    assert (held[0].integer_value, held[1].string_array_value) == (-7, ["c"])


def test_parameters_that_refuse_values_or_all(node: Node) -> None:
    def value(name: str, number: int) -> dict[str, Any]:
        return {"name": name, "value": {"type": 2, "integer_value": number}}

    def held() -> list[int]:
        values = call(node, f"{RCL}/GetParameters", "/peer/get_parameters", names=["even", "limits.high"]).values
        return [one.integer_value for one in values]

    described = call(node, f"{RCL}/DescribeParameters", "/peer/describe_parameters", names=["fixed", "even"])
    assert [one.read_only for one in described.descriptors] == [True, False]
    each = [value("fixed", 4), value("even", 3), value("even", 4)]
    results = call(node, f"{RCL}/SetParameters", "/peer/set_parameters", parameters=each).results
    assert [one.reason for one in results] == ["fixed is read-only", "even must be even, got 3", ""]
    assert held() == [4, 1]
    together = [value("even", 6), value("limits.high", 9), value("even", 7)]
    atomic = call(node, f"{RCL}/SetParametersAtomically", "/peer/set_parameters_atomically", parameters=together)
    assert (atomic.result.successful, atomic.result.reason) == (False, "even: even must be even, got 7")
    assert held() == [4, 1], "all or nothing"
    together.pop()
    atomic = call(node, f"{RCL}/SetParametersAtomically", "/peer/set_parameters_atomically", parameters=together)
    assert atomic.result.successful and held() == [6, 9]


def test_own_parameters(node: Node) -> None:
    assert node.parameters.declare("own", 3) == node.parameters.get("own") == 3
    with pytest.raises(ConfigError, match="declared already"):
        node.parameters.declare("own", 4)
    with pytest.raises(ConfigError, match=r"parameter 'owm' was not declared.*own"):
        node.parameters.get("owm")
    with pytest.raises(ConfigError, match="can be no parameter"):
        node.parameters.declare("bad", object())


def test_changes_of_parameters_are_published(node: Node) -> None:
    """rqt_reconfigure and rclcpp's ParameterEventHandler subscribe to this topic."""
    heard: list[Any] = []
    subscription = node.create_subscription(EVENT, "/parameter_events", heard.append, QoSProfile(depth=1000))
    wait_until(lambda: subscription.matched_count == 2)
    node.parameters.declare("speed", 0.5)
    wait_until(lambda: bool(heard))
    (new,) = heard.pop().new_parameters
    assert (new.name, new.value.type, new.value.double_value) == ("speed", 3, 0.5)

    def value(name: str, number: int) -> dict[str, Any]:
        return {"name": name, "value": {"type": 2, "integer_value": number}}

    for service in ("set_parameters", "set_parameters_atomically"):
        kind = f"{RCL}/{''.join(word.title() for word in service.split('_'))}"
        call(node, kind, f"/peer/{service}", parameters=[value("limits.low", -9), value("limits.high", 12)])
        wait_until(lambda: bool(heard))
        event = heard.pop()
        values = [(one.name, one.value.integer_value) for one in event.changed_parameters]
        assert (event.node, values) == ("/peer", [("limits.low", -9), ("limits.high", 12)])
        call(node, kind, f"/peer/{service}", parameters=[value("fixed", 4)])
    call(node, f"{RCL}/SetParameters", "/peer/set_parameters", parameters=[value("fixed", 4), value("limits.low", -1)])
    wait_until(lambda: bool(heard))
    assert [one.name for one in heard.pop().changed_parameters] == ["limits.low"], "what was refused did not change"


def test_logs_are_on_rosout(node: Node) -> None:
    def hear(heard: list[Any]) -> Subscription:
        def note(message: Any) -> None:  # the peer logs too
            if message.name == "tester.drivers.test":
                heard.append(message)

        return node.create_subscription(LOG, "/rosout", note, ROSOUT)

    heard: list[Any] = []
    early = hear(heard)
    wait_until(lambda: early.matched_count == 2)
    logger = logging.getLogger("robo_rl.drivers.test")
    logger.warning("the arm is %s", "slow")
    try:
        raise ValueError("7 joints")
    except ValueError:
        logger.exception("it failed")
    logging.getLogger("elsewhere").warning("not ours")
    wait_until(lambda: len(heard) == 2)
    warning, failure = heard
    assert (warning.level, warning.msg) == (30, "the arm is slow")
    assert (warning.function, warning.file) == ("test_logs_are_on_rosout", __file__)
    assert failure.level == 40 and "it failed" in failure.msg and "ValueError: 7 joints" in failure.msg
    late: list[Any] = []
    hear(late)
    wait_until(lambda: [one.msg for one in late] == [warning.msg, failure.msg])


def test_warnings_are_printed_too() -> None:
    """In a process of its own: pytest handles records, and then Python prints none by itself."""
    code = (
        "import logging; from robo_rl.drivers.ros2 import open_node\n"
        "with open_node('one', implementation='dds'), open_node('two', implementation='dds'):\n"
        "    logging.getLogger('robo_rl.drivers.test').warning('the arm is slow')\n"
        "    logging.getLogger('robo_rl.drivers.test').info('it moves')\n"
    )
    with free_domain() as environment:
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["the arm is slow"]


def test_a_parameter_that_no_message_holds_is_refused(node: Node) -> None:
    with pytest.raises(ConfigError, match="integer_value: 9223372036854775808 does not fit"):
        node.parameters.declare("large", 2**63)
    assert node.parameters.declare("large", 2**62) == 2**62

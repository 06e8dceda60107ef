"""Nodes of rclpy that are closed while messages arrive, by whom and in which thread it may be.

They run wherever rclpy can be imported, on the middleware of ``RMW_IMPLEMENTATION``.
"""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from robo_rl.core import DriverError
from robo_rl.drivers.ros2 import Node, open_node
from robo_rl.drivers.ros2.opening import why_no_rclpy

from ..rigs.ros2_domain import free_domain
from ..rigs.ros2_rig import TRIGGER

NO_RCLPY = why_no_rclpy()
pytestmark = pytest.mark.skipif(NO_RCLPY is not None, reason=f"needs real ROS 2: {NO_RCLPY}")
BOOL = "std_msgs/msg/Bool"
SLOWEST = 3.0
"""Longest time in which a node closes [s], on a busy machine too."""


@pytest.fixture(scope="module")
def other() -> Iterator[Node]:
    """Another node, which publishes a thousand messages per second and has a service that takes its time."""
    with free_domain() as environment, pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        over = threading.Event()
        with open_node("other", implementation="rclpy") as node:
            response = node.types.make(f"{TRIGGER}_Response", success=True)
            node.create_service(TRIGGER, "/slow", lambda request: (over.wait(10), response)[1])
            publisher, message = node.create_publisher(BOOL, "/many"), node.types.make(BOOL, data=True)

            def publish() -> None:
                while not over.wait(0.001):
                    publisher.publish(message)

            thread = threading.Thread(target=publish)
            thread.start()
            yield node
            over.set()
            thread.join()


class Closing:
    """A node with a callback of each kind, one of which closes it."""

    def __init__(self, kind: str) -> None:
        self.node = open_node("closing", implementation="rclpy")
        self.seconds, self.done = 0.0, threading.Event()
        self.node.create_subscription(BOOL, "/many", self._callback(kind == "message"))
        self.node.create_timer(0.005, self._callback(kind == "timer"))
        self.node.create_service(TRIGGER, "/close", self._callback(kind == "service"))

    def close(self) -> None:
        if not self.done.is_set():
            began = time.monotonic()
            self.node.close()
            self.seconds = time.monotonic() - began
            self.done.set()

    def _callback(self, closes: bool) -> Callable[..., Any]:
        def callback(*request: Any) -> Any:
            time.sleep(0.002)
            if closes:
                self.close()
            return self.node.types.make(f"{TRIGGER}_Response")

        return callback


@pytest.mark.parametrize("kind", ["message", "timer", "service", "nothing"])
def test_a_node_closes_at_once_and_without_a_word(other: Node, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    closing = Closing(kind)
    if kind == "service":
        with pytest.raises(DriverError):
            other.create_client(TRIGGER, "/close").call(other.types.make(f"{TRIGGER}_Request"), 5.0)
    if kind == "nothing":
        time.sleep(0.2)
        closing.close()
    assert closing.done.wait(20)
    closing.node.close()
    assert closing.seconds < SLOWEST
    time.sleep(0.2)
    output = "".join(capfd.readouterr())
    assert "Traceback" not in output and "InvalidHandle" not in output, output


def test_a_call_ends_with_its_node(other: Node) -> None:
    closing, errors = Closing("nothing"), []

    def call() -> None:
        try:
            closing.node.create_client(TRIGGER, "/slow").call(closing.node.types.make(f"{TRIGGER}_Request"), 60.0)
        except DriverError as error:
            errors.append(str(error))

    caller = threading.Thread(target=call)
    caller.start()
    time.sleep(1.0)
    closing.close()
    caller.join(SLOWEST)
    assert errors == [f"/slow ({TRIGGER}): the node is closed"]

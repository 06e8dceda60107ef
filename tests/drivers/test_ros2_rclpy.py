"""What can be held of the rclpy implementation where there is no ROS 2: stand-ins that take anything have its names."""

import importlib
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from robo_rl.core import ConfigError, DriverError

OURS = "robo_rl.drivers.ros2.with_rclpy"
PACKAGES = {
    "rclpy": (
        "action callback_groups clock context duration event_handler exceptions executors guard_condition impl"
        " impl.implementation_singleton parameter qos signals subscription task"
    ),
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
    sys.modules["rclpy.exceptions"].InvalidHandle = type("InvalidHandle", (Exception,), {})
    library = sys.modules["rclpy.impl.implementation_singleton"].rclpy_implementation
    library.WaitSet.return_value.wait.side_effect = lambda nanoseconds: time.sleep(0.01)
    yield lambda name: importlib.import_module(f"{OURS}.{name}")
    forget()


class Future:
    """rclpy's, without an executor."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Any], None]] = []
        self._result: Any = None
        self._done = False

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        if self._done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def result(self) -> Any:
        return self._result

    def set_result(self, result: Any) -> None:
        self._result, self._done = result, True
        for callback in self._callbacks:
            callback(self)


class Spins:
    """The thread of a node: what it is given to do is done at once."""

    def __init__(self) -> None:
        self.executor = self

    def create_task(self, function: Callable[..., Any], *arguments: Any) -> Future:
        task = Future()
        task.set_result(function(*arguments))
        return task


def test_a_goal_that_is_accepted_too_late_is_cancelled(rclpy: Callable[[str], Any]) -> None:
    guard = rclpy("endpoints").Guard(MagicMock())
    graph = MagicMock(get_publishers_info_by_topic=MagicMock(return_value=[]))
    client = rclpy("actions").RclpyActionClient(graph, None, "a/action/B", "grip", Spins(), Spins(), guard)
    for accepted in (True, False):
        future, handle = Future(), MagicMock(accepted=accepted)
        client._client.send_goal_async.return_value = future
        with pytest.raises(DriverError, match=r"grip .* did not answer within 0.01 s"):
            client.send_goal(None, timeout_s=0.01)
        future.set_result(handle)
        assert handle.cancel_goal_async.called == accepted


class Awaited(Future):
    """One that a coroutine waits for."""

    def __await__(self) -> Iterator[None]:
        while not self._done:
            yield
        return self._result


def test_a_goal_ends_when_its_node_is_closed(rclpy: Callable[[str], Any]) -> None:
    node = rclpy("node").RclpyNode("lab")
    serve_action = rclpy("actions").ActionServer
    executed: list[Any] = []
    node.create_action_server("a/action/B", "grip", executed.append)
    *_, execute = serve_action.call_args.args
    rclpy("actions").Future = lambda executor: Awaited()
    ends = []

    def run(handle: Any) -> None:
        """Execute a goal as rclpy's executor does: a coroutine that goes on when the goal's own thread has ended."""
        goal = execute(handle)
        with suppress(StopIteration):
            while True:
                goal.send(None)
                time.sleep(0.001)

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


def test_a_node_has_an_executor_of_one_thread_for_callbacks_and_one_for_answers(rclpy: Callable[[str], Any]) -> None:
    node = rclpy("node").RclpyNode("lab", "cell", {"__node": "hall", "reset": "home"})
    executors = sys.modules["rclpy.executors"]
    assert executors.SingleThreadedExecutor.call_count == 2 and not executors.MultiThreadedExecutor.called
    (own, calls) = sys.modules["rclpy"].create_node.call_args_list
    assert own.args == ("lab",) and own.kwargs["cli_args"] == ["--ros-args", "-r", "__node:=hall", "-r", "reset:=home"]
    assert (calls.args, calls.kwargs["namespace"]) == (("_hall_calls",), "/cell")
    assert "cli_args" not in calls.kwargs and not calls.kwargs["start_parameter_services"]
    client = node.create_client("a/action/B", "reset")
    assert client.service == "/cell/home", "resolved before the second node has it, which has no rules of its own"
    node.close()


@pytest.mark.parametrize("closes", [False, True])
def test_what_a_callback_raises_does_not_end_the_thread(rclpy: Callable[[str], Any], closes: bool) -> None:
    made, guard, turns = rclpy("spinning"), MagicMock(), []
    sys.modules["rclpy.executors"].ExternalShutdownException = made.ExternalShutdownException = TimeoutError
    spinner: Any = None

    def spin_once() -> None:
        turns.append(1)
        if closes:  # the callback has closed its node
            spinner._closing = True
            raise ValueError("InvalidHandle")
        if len(turns) <= 2:
            raise ValueError("as it should")
        raise TimeoutError  # the context has ended

    executor = sys.modules["rclpy.executors"].SingleThreadedExecutor.return_value
    executor.spin_once.side_effect = lambda: time.sleep(0.2) or spin_once()
    spinner = made.Spinner(MagicMock(), MagicMock(), guard)
    spinner._thread.join(10)
    assert (len(turns), guard.report.call_count) == ((1, 0) if closes else (3, 2))
    spinner.close()
    assert executor.shutdown.called


class Subscribed:
    """A subscription of rclpy's with messages in its queue."""

    msg_type = "Bool"

    def __init__(self, *messages: Any) -> None:
        self.queue, self.handle = list(messages), MagicMock(pointer=id(self))
        self.received: list[Any] = []
        self.handle.take_message = self._take
        self.callback: Callable[[Any], Any] = self.received.append

    def _take(self, kind: Any, raw: bool) -> Any:
        assert (kind, raw) == ("Bool", False)
        if not self.queue:
            return None
        if isinstance(self.queue[0], Exception):
            raise self.queue.pop(0)
        return self.queue.pop(0), "where it is from"


def test_messages_are_received_in_order_and_by_turns(rclpy: Callable[[str], Any]) -> None:
    spinning, guard, ended = rclpy("spinning"), MagicMock(), threading.Event()
    many = Subscribed(*range(spinning.BATCH), UnicodeDecodeError("utf-8", b"", 0, 1, "damaged"), "last")
    few, added = Subscribed("a"), threading.Event()
    order: list[Any] = []
    many.callback = lambda message: (added.wait(10), order.append(message))
    few.callback = order.append
    library = sys.modules["rclpy.impl.implementation_singleton"].rclpy_implementation
    wait_set = library.WaitSet.return_value
    # What is ready is what has messages and is in the set.
    wait_set.get_ready_entities.side_effect = lambda kind: [each.handle.pointer for each in (many, few) if each.queue]

    def wait(nanoseconds: int) -> None:
        time.sleep(0.01)
        if order[-1:] == ["last"]:
            ended.set()

    wait_set.wait.side_effect = wait
    spinner = spinning.MessageSpinner("lab", MagicMock(), guard)
    spinner.add(many)
    spinner.add(few)
    added.set()
    assert ended.wait(10)
    spinner.close()
    assert [each for each in order if each != "a"] == [*range(spinning.BATCH), "last"]
    assert order.index("a") < order.index("last") and guard.report.call_count == 1
    assert spinning.GuardCondition.return_value.destroy.called
    assert library.WaitSet.call_args.args[:2] == (2, 1), "of no more than the subscriptions"


def test_a_callback_for_a_message_may_close_the_node(rclpy: Callable[[str], Any]) -> None:
    node = rclpy("node").RclpyNode("lab")
    wait_set = sys.modules["rclpy.impl.implementation_singleton"].rclpy_implementation.WaitSet.return_value
    only = Subscribed(1, 2)
    wait_set.get_ready_entities.side_effect = lambda kind: [only.handle.pointer] if only.queue else []

    def close(message: Any) -> None:
        only.received.append(message)
        node.close()

    only.callback = close
    node._messages.add(only)
    node._messages._thread.join(10)
    assert not node._messages._thread.is_alive() and only.received == [1]


def test_callbacks_of_two_threads_take_turns_until_the_node_is_closed(rclpy: Callable[[str], Any]) -> None:
    guard, running, overlaps = rclpy("endpoints").Guard(MagicMock()), [0], []

    def work() -> None:
        running[0] += 1
        overlaps.append(running[0])
        time.sleep(0.001)
        running[0] -= 1

    def answer() -> None:
        for _ in range(50):
            with guard.turn():
                work()

    threads = [threading.Thread(target=lambda: [guard(work)() for _ in range(50)]), threading.Thread(target=answer)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert overlaps == [1] * 100

    def close() -> None:
        late.start()
        guard.closed = True
        late.join(10)  # as closing a node waits for its threads

    late = threading.Thread(target=guard(lambda: overlaps.append(2)))
    guard(close)()
    assert not late.is_alive() and 2 not in overlaps and not guard._logger.error.called


def test_parameters_that_change_together_have_one_turn(rclpy: Callable[[str], Any]) -> None:
    """A callback in another thread must not see some of them changed, or one that is about to get its old value."""
    guard = rclpy("endpoints").Guard(MagicMock())
    turns: list[bool] = []
    parameters = rclpy("parameters").RclpyParameters(MagicMock(), {}, guard)

    def reject(value: int) -> None:
        raise ConfigError("too large")

    parameters.declare("first", 1, lambda value: turns.append(guard._running._is_owned()))
    parameters.declare("second", 1, reject)
    parameters._change([SimpleNamespace(name=name, value=2) for name in ("first", "second")])
    assert turns == [True, True], "the new value and the old one"
    assert not guard._running._is_owned()


def test_what_is_under_way_when_a_node_is_closed_ends_with_an_error_of_ours(rclpy: Callable[[str], Any]) -> None:
    endpoints, gone = rclpy("endpoints"), sys.modules["rclpy.exceptions"].InvalidHandle("destroyed")
    watch = MagicMock(side_effect=[frozenset("a"), gone])
    client = MagicMock()
    client.call_async.return_value = Future()
    with pytest.raises(DriverError, match=r"/reset \(a/srv/B\): the node is closed"):
        endpoints.RclpyClient(client, "a/srv/B", "/reset", watch).call(None, 5.0)
    assert client.remove_pending_request.called
    publisher = MagicMock(topic_name="/state", publish=MagicMock(side_effect=gone))
    with pytest.raises(DriverError, match="/state: the node is closed"):
        endpoints.RclpyPublisher(publisher, "a/msg/B", None).publish(None)
    node, actions = MagicMock(get_publishers_info_by_topic=MagicMock(side_effect=gone)), rclpy("actions")
    move = actions.RclpyActionClient(node, None, "a/action/B", "/move", Spins(), Spins(), endpoints.Guard(MagicMock()))
    with pytest.raises(DriverError, match="/move: the node is closed"):
        move.send_goal(None)


def test_a_package_that_the_workspace_lacks_is_named_with_what_to_do(
    rclpy: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    node = rclpy("node").RclpyNode("lab")
    for create, kind in (
        (node.create_client, "control_msgs/srv/Query"),
        (node.create_action_client, "moveit_msgs/action/Move"),
        (lambda kind, name: node.create_service(kind, name, print), "ackermann_msgs/srv/Set"),
    ):
        package = kind.partition("/")[0]
        with pytest.raises(
            DriverError, match=rf"apt install ros-jazzy-{package.replace('_', '-')}.*implementation=dds"
        ):
            create(kind, "grip")
    sys.modules["rosidl_runtime_py.utilities"].get_message.side_effect = ModuleNotFoundError("none")
    with pytest.raises(ConfigError, match=r"package control_msgs .*implementation=dds"):
        node.create_publisher("control_msgs/msg/JointJog", "jog")
    node.close()

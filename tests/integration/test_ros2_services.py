"""Services and actions of drivers/ros2 between processes, over DDS on loopback."""

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from robo_rl.core import DriverError
from robo_rl.drivers.ros2 import GoalStatus, Node, ServerGoal, ServerLostError, open_node
from robo_rl.drivers.ros2.dds.services import MOST_WAITING, DdsService

from ..rigs.ros2_domain import domain_of_peer, free_domain
from ..rigs.ros2_rig import GRIPPER, SET_BOOL, TRIGGER, call, peer, wait_until


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with domain_of_peer(), open_node("tester", implementation="dds") as opened:
        yield opened


def test_every_client_gets_its_own_answers(node: Node) -> None:
    answers: dict[bool, list[str]] = {True: [], False: []}

    def ask(value: bool) -> None:
        client = node.create_client(SET_BOOL, "set")
        for _ in range(30):
            answers[value].append(client.call(node.types.make(f"{SET_BOOL}_Request", data=value), 20.0).message)

    threads = [threading.Thread(target=ask, args=(value,)) for value in answers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {True: ["set True"] * 30, False: ["set False"] * 30}


def test_a_node_describes_types_as_their_hash_says(node: Node) -> None:
    kind, name = "type_description_interfaces/srv/GetTypeDescription", "sensor_msgs/msg/Image"
    types: Any = node.types
    reply = call(node, kind, "/peer/get_type_description", type_name=name, type_hash=types.hash(name))
    assert reply.successful and not reply.failure_reason
    image, others = reply.type_description.type_description, reply.type_description.referenced_type_descriptions
    assert image.type_name == name
    # The numbers of the fields' types: a nested one, uint32, uint32, string, uint8, uint32, and uint8 without a bound.
    assert [(field.name, field.type.type_id) for field in image.fields] == [
        ("header", 1), ("height", 7), ("width", 7), ("encoding", 17), ("is_bigendian", 3), ("step", 7), ("data", 147),
    ]  # fmt: skip
    assert image.fields[0].type.nested_type_name == "std_msgs/msg/Header"
    assert [other.type_name for other in others] == ["builtin_interfaces/msg/Time", "std_msgs/msg/Header"]
    bounded = "type_description_interfaces/msg/FieldType"
    reply = call(node, kind, "/peer/get_type_description", type_name=bounded, type_hash=types.hash(bounded))
    assert reply.type_description.type_description.fields[3].type.string_capacity == 255
    other = call(node, kind, "/peer/get_type_description", type_name=name, type_hash="RIHS01_0")
    assert not other.successful and types.hash(name) in other.failure_reason
    assert "knows no type a/msg/B" in call(node, kind, "/peer/get_type_description", type_name="a/msg/B").failure_reason


def test_a_callback_may_call_a_service(node: Node) -> None:
    client = node.create_client(SET_BOOL, "set")
    answers: list[str] = []

    def ask() -> None:
        answers.append(client.call(node.types.make(f"{SET_BOOL}_Request", data=True), 20.0).message)

    timer = node.create_timer(0.01, ask)
    wait_until(lambda: answers)
    timer.cancel()
    assert answers[0] == "set True"


def test_no_server_and_no_answer_are_told_apart(node: Node) -> None:
    absent = node.create_client(TRIGGER, "absent")
    assert not absent.wait(0.1)
    request = node.types.make(f"{TRIGGER}_Request")
    with pytest.raises(DriverError, match=r"no server of /absent \(std_srvs/srv/Trigger\) was there within 0.1 s"):
        absent.call(request, 0.1)
    failing = node.create_client(TRIGGER, "fail")
    assert failing.wait(20.0)
    with pytest.raises(DriverError, match=r"/fail .* did not answer within 1"):
        failing.call(request, 1.0)


def goal(node: Node, position: float) -> Any:
    return node.types.make(f"{GRIPPER}_Goal", command={"position": position})


def test_a_goal_with_feedback_and_result(node: Node) -> None:
    client = node.create_action_client(GRIPPER, "grip")
    feedback: list[float] = []
    handle = client.send_goal(goal(node, 0.5), lambda message: feedback.append(message.position), 20.0)
    status, result = handle.result(20.0)
    assert status == handle.status == GoalStatus.SUCCEEDED
    assert (result.position, result.reached_goal) == (0.5, True)
    wait_until(lambda: len(feedback) == 5)
    assert feedback == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert not handle.cancel(20.0)


def test_a_goal_is_cancelled(node: Node) -> None:
    client = node.create_action_client(GRIPPER, "grip")
    heard = threading.Event()
    handle = client.send_goal(goal(node, 5.0), lambda message: heard.set(), 20.0)
    assert heard.wait(20.0)
    with pytest.raises(DriverError, match=r"/grip: the goal did not end within 0.01 s"):
        handle.result(0.01)
    assert handle.cancel(20.0)
    status, result = handle.result(20.0)
    assert status == GoalStatus.CANCELED and result.position > 0


def test_a_goal_is_rejected_or_fails(node: Node) -> None:
    client = node.create_action_client(GRIPPER, "grip")
    with pytest.raises(DriverError, match="/grip: the server rejected the goal"):
        client.send_goal(goal(node, -1.0), timeout_s=20.0)
    status, result = client.send_goal(goal(node, 7.0), timeout_s=20.0).result(20.0)
    assert status == GoalStatus.ABORTED and not result.reached_goal
    with pytest.raises(DriverError, match="no server of the action /absent"):
        node.create_action_client(GRIPPER, "absent").send_goal(goal(node, 0.0), timeout_s=0.1)


def test_a_goal_that_is_accepted_too_late_is_cancelled(node: Node) -> None:
    held, ended = threading.Event(), threading.Event()

    def accept(request: Any) -> bool:
        return held.wait(20.0)

    def execute(server_goal: ServerGoal) -> Any:
        wait_until(lambda: server_goal.cancel_requested)
        server_goal.canceled()
        ended.set()
        return node.types.make(f"{GRIPPER}_Result")

    node.create_action_server(GRIPPER, "slow", execute, accept)
    client = node.create_action_client(GRIPPER, "slow")
    assert client.wait(20.0)
    with pytest.raises(DriverError, match=r"/slow/_action/send_goal .* did not answer within"):
        client.send_goal(goal(node, 0.5), timeout_s=0.5)
    held.set()
    assert ended.wait(20.0)


def test_what_is_never_answered_is_not_kept_for_ever(node: Node) -> None:
    """A server that takes goals and dies leaves requests for results; memory is not to grow with them."""
    answer = node.types.make(f"{GRIPPER}_SendGoal_Response", accepted=True)
    node.create_service(f"{GRIPPER}_SendGoal", "dead/_action/send_goal", lambda request: answer)
    plain: Any = node
    silent = [
        DdsService(plain._endpoints, kind, f"/dead/_action/{name}", plain._callbacks, lambda request, answer: None)
        for kind, name in ((f"{GRIPPER}_GetResult", "get_result"), ("action_msgs/srv/CancelGoal", "cancel_goal"))
    ]
    client = node.create_action_client(GRIPPER, "dead")
    goals = [weakref.ref(client.send_goal(goal(node, 0.5), timeout_s=20.0)) for _ in range(MOST_WAITING + 20)]
    gc.collect()
    alive = [number for number, one in enumerate(goals) if one() is not None]
    assert alive == list(range(20, MOST_WAITING + 20)), "the newest may end yet"
    assert silent


@pytest.mark.parametrize("calls", ["goals", "goals by many clients", "services", "services by many clients"])
def test_a_burst_of_requests_is_answered_to_the_last(node: Node, calls: str) -> None:
    """None is sent again: what a queue of ten drops is waited for in vain."""
    count, name = 64, calls.replace(" ", "_")
    held = threading.Event()

    def accept(request: Any) -> bool:
        return held.wait(20.0)  # the others arrive while the server is busy with the first

    def answer(request: Any) -> Any:
        held.wait(20.0)
        return node.types.make(f"{SET_BOOL}_Response", message=str(request.data))

    def execute(server_goal: ServerGoal) -> Any:
        return node.types.make(f"{GRIPPER}_Result", position=server_goal.request.command.position)

    makers = 8 if "many" in calls else 1
    if calls.startswith("services"):
        node.create_service(SET_BOOL, name, answer)
        callers = [node.create_client(SET_BOOL, name) for _ in range(makers)]
        assert all(caller.wait(20.0) for caller in callers)

        def ask(number: int) -> bool:
            request = node.types.make(f"{SET_BOOL}_Request", data=number % 2 == 0)
            return bool(callers[number % makers].call(request, 20.0).message == str(number % 2 == 0))
    else:
        node.create_action_server(GRIPPER, name, execute, accept)
        clients = [node.create_action_client(GRIPPER, name) for _ in range(makers)]
        assert all(client.wait(20.0) for client in clients)

        def ask(number: int) -> bool:
            sent = clients[number % makers].send_goal(goal(node, number), timeout_s=20.0)
            return bool(sent.result(20.0)[1].position == number)

    with ThreadPoolExecutor(count) as pool:
        answers = [pool.submit(ask, number) for number in range(count)]
        time.sleep(0.3)
        held.set()
        assert all(answer.result(30.0) for answer in answers)


def test_several_goals_at_once_and_their_status(node: Node) -> None:
    statuses = node.create_subscription("action_msgs/msg/GoalStatusArray", "grip/_action/status")
    client = node.create_action_client(GRIPPER, "grip")
    first, second = (client.send_goal(goal(node, 5.0), None, 20.0) for _ in range(2))
    assert first.cancel(20.0)
    assert first.result(20.0)[0] == GoalStatus.CANCELED
    assert second.status == GoalStatus.ACCEPTED
    assert second.cancel(20.0)
    assert second.result(20.0)[0] == GoalStatus.CANCELED

    def ended() -> bool:
        newest = statuses.latest()
        return newest is not None and [entry.status for entry in newest[0].status_list][-2:] == [5, 5]

    wait_until(ended)


def test_goals_are_cancelled_by_name_by_time_or_all(node: Node) -> None:
    """As rcl_action_process_cancel_request decides."""
    kind, client = "action_msgs/srv/CancelGoal", node.create_action_client(GRIPPER, "grip")

    def cancel(**goal_info: Any) -> tuple[int, int]:
        answer = call(node, kind, "/grip/_action/cancel_goal", goal_info=goal_info)
        return answer.return_code, len(answer.goals_canceling)

    unknown, later = {"goal_id": {"uuid": b"1" * 16}}, {"stamp": {"sec": 2**31 - 1}}
    assert cancel() == (0, 0)
    assert (cancel(**unknown), cancel(**unknown, **later)) == ((2, 0), (0, 0))
    handles = [client.send_goal(goal(node, 5.0), None, 20.0) for _ in range(3)]
    assert cancel(goal_id={"uuid": handles[0].identity}) == (0, 1)
    assert handles[0].result(20.0)[0] == GoalStatus.CANCELED
    assert cancel(goal_id={"uuid": handles[0].identity}) == (3, 0)
    assert cancel(stamp={"sec": 1}) == (0, 0)
    assert cancel(**later) == (0, 2)
    assert [handle.result(20.0)[0] for handle in handles[1:]] == [GoalStatus.CANCELED] * 2
    client.send_goal(goal(node, 5.0), None, 20.0)
    assert cancel() == (0, 1)


def test_a_closed_node_answers_nobody(node: Node) -> None:
    began = time.monotonic()
    with open_node("brief", implementation="dds") as brief:
        brief.create_service(TRIGGER, "brief", lambda request: brief.types.make(f"{TRIGGER}_Response"))
        call(node, TRIGGER, "brief")
        assert "/brief" in node.graph.nodes
    wait_until(lambda: "/brief" not in node.graph.nodes)
    assert not node.create_client(TRIGGER, "brief").wait(0.05)
    assert time.monotonic() - began < 60


SHORT_LEASE = "<CycloneDDS><Domain><Discovery><LeaseDuration>1s</LeaseDuration></Discovery></Domain></CycloneDDS>"
"""A process that is killed counts as dead after this time, instead of 10 s."""


@pytest.mark.parametrize("asks", ["a service", "a goal"])
def test_a_server_that_is_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, asks: str) -> None:
    with free_domain() as environment, peer(environment | {"CYCLONEDDS_URI": SHORT_LEASE}) as process:
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        with open_node("tester", implementation="dds") as node, ThreadPoolExecutor(1) as pool:
            service, gripper = node.create_client(TRIGGER, "hang"), node.create_action_client(GRIPPER, "grip")
            assert service.wait(20.0) and gripper.wait(20.0)
            if asks == "a service":
                answer = pool.submit(service.call, node.types.make(f"{TRIGGER}_Request"), 60.0)
            else:
                answer = pool.submit(gripper.send_goal(goal(node, 5.0), None, 20.0).result, 60.0)
            with pytest.raises(TimeoutError):
                answer.result(0.5)
            process.kill()
            with pytest.raises(ServerLostError, match="the server has ended, without an answer"):
                answer.result(30)


def test_a_server_that_is_started_again_is_asked_again(node: Node) -> None:
    """The dead one is in discovery for some time yet: what is noticed is the new one."""
    go_on, request = threading.Event(), node.types.make(f"{TRIGGER}_Request")
    with open_node("first", implementation="dds") as first, open_node("second", implementation="dds") as second:
        first.create_service(TRIGGER, "/home", lambda _: go_on.wait(60))
        client = node.create_client(TRIGGER, "/home")
        assert client.wait(20.0)
        with ThreadPoolExecutor(1) as pool:
            lost = pool.submit(client.call, request, 60.0)
            with pytest.raises(TimeoutError):
                lost.result(0.5)
            answer = second.types.make(f"{TRIGGER}_Response", success=True, message="second")
            second.create_service(TRIGGER, "/home", lambda _: answer)
            with pytest.raises(ServerLostError, match=r"/home .*: a new server has taken the place"):
                lost.result(30)
            assert client.call(request, 20.0).message == "second"
        go_on.set()

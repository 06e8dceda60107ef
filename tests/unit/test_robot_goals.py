"""Goals that a robot is sent while nobody waits for their answers: what is sent, cancelled and sent again, and when."""

import math
import queue
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.core import DriverError
from robo_rl.drivers.robot.commanding import GripperCommander
from robo_rl.drivers.robot.config import GripperConfig
from robo_rl.drivers.robot.goals import GoalSender
from robo_rl.drivers.ros2 import GoalStatus
from robo_rl.drivers.ros2.message_types import RosbagsTypes

from ..robot_rig import composed, driver, wait_until

RESULT = SimpleNamespace(position=0.01, stalled=True)


class Server:
    """Stands in for a node and its client of an action; the test gives the answers."""

    def __init__(self) -> None:
        self.types = RosbagsTypes()
        self.sent: list[Any] = []
        self.answers: queue.Queue[Any] = queue.Queue()

    def create_action_client(self, kind: str, name: str) -> "Server":
        return self

    def create_publisher(self, kind: str, topic: str, qos: Any) -> Any:
        return SimpleNamespace(publish=lambda message: None, topic=topic)

    def now(self) -> Any:
        return {}

    def send_goal(self, goal: Any, feedback: Any = None, timeout_s: float = 5.0) -> Any:
        self.sent.append(goal)
        answer = self.answers.get(timeout=20)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def positions(self) -> list[float]:
        return [goal.command.position for goal in self.sent]


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    for _ in range(9):  # so that no thread waits
        made.answers.put(None)


def test_an_arm_that_holds_sends_its_gripper_nothing_more(server: Server) -> None:
    action = ("robot.gripper.kind=action", "robot.gripper.name=grip", "robot.gripper.closed=0", "robot.gripper.open=1")
    body = driver(composed("task=pick_cube", *action))._body
    body.open(server)
    gripper = body._gripper
    try:
        gripper.send(1.0)
        wait_until(lambda: server.sent)
        gripper.send(0.0)  # waits for the answer to the first
        body.hold(dict.fromkeys(body.layout.used))
        server.answers.put(None)
        time.sleep(0.1)
        assert server.positions() == [1.0]
        gripper.send(0.0)  # the next step
        wait_until(lambda: len(server.sent) > 1)
        server.answers.put(None)
    finally:
        gripper.close()
    assert server.positions() == [1.0, 0.0]


class Accepted:
    """A goal that its server has accepted."""

    def __init__(self) -> None:
        self.status = GoalStatus.EXECUTING
        self.cancelled = 0

    def cancel(self, timeout_s: float) -> bool:
        self.cancelled += 1
        return True

    def result(self, timeout_s: float) -> Any:
        return self.status, RESULT


def test_a_goal_can_be_cancelled_until_a_newer_one_is_accepted(server: Server) -> None:
    failures: list[str] = []
    goals = GoalSender(server, failures.append)
    first = Accepted()
    server.answers.put(first)
    try:
        goals.send("first")
        wait_until(lambda: goals._goal is first)
        goals.send("second")
        wait_until(lambda: len(server.sent) == 2)
        first.status = GoalStatus.ABORTED
        assert goals.aborted() is None, "the second may have taken its place"
        server.answers.put(DriverError("no answer"))
        wait_until(lambda: failures)
        wait_until(lambda: goals.aborted() is RESULT)
        goals.cancel()
        wait_until(lambda: first.cancelled)
        wait_until(lambda: goals.aborted() is None)
    finally:
        goals.close()
    assert failures == ["no answer"]


def test_a_gripper_goal_that_is_not_accepted_is_sent_again_after_a_while(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("robo_rl.drivers.robot.commanding.time", SimpleNamespace(monotonic=lambda: now[0]))
    gripper = GripperCommander(server, GripperConfig(kind="action", name="grip"))
    goal = Accepted()
    try:
        gripper.send(0.0)
        server.answers.put(DriverError("the server rejected the goal"))
        wait_until(lambda: now[0] < gripper._retry_at < math.inf)
        for _ in range(3):
            gripper.send(0.0)
        assert len(server.sent) == 1, "not at every step"
        now[0] += 1.0
        gripper.send(0.0)
        server.answers.put(goal)
        wait_until(lambda: gripper._goals._goal is goal)
        goal.status = GoalStatus.ABORTED
        for _ in range(3):
            now[0] += 1.0
            gripper.send(0.0)
    finally:
        gripper.close()
    assert server.positions() == [0.0, 0.0]
    assert capsys.readouterr().out == (
        "the gripper: the server rejected the goal\nthe gripper: a goal of grip was aborted at 0.01, stalled\n"
    )

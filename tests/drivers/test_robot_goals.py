"""Goals that a robot is sent while nobody waits for their answers: what is sent, cancelled and sent again, and when."""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ArmPose, ArmTarget, DriverError
from robo_rl.drivers.robot.commanding import ArmCommander, BaseCommander
from robo_rl.drivers.robot.config import CommandConfig, GripperConfig
from robo_rl.drivers.robot.goals import GoalSender
from robo_rl.drivers.robot.gripper import MOST_FAILURES, GripperCommander
from robo_rl.drivers.ros2 import GoalStatus

from ..rigs.goal_server import RESULT, Accepted, Server
from ..rigs.robot_rig import composed, driver, wait_until


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
        assert goals.ended() is None, "the second may have taken its place"
        server.answers.put(DriverError("no answer"))
        wait_until(lambda: failures)
        wait_until(lambda: goals.ended() == (GoalStatus.ABORTED, RESULT))
        goals.cancel()
        wait_until(lambda: first.cancelled)
        wait_until(lambda: goals.ended() is None)
    finally:
        goals.close()
    assert failures == ["no answer"]


def test_a_gripper_goal_that_is_not_accepted_is_sent_again_after_a_while(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("robo_rl.drivers.robot.gripper.time", SimpleNamespace(monotonic=lambda: now[0]))
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


CONFIG = GripperConfig(kind="action", name="grip", closed=0.0, open=1.0)


def sent_until_refused(gripper: GripperCommander, opening: float = 0.0) -> str:
    """Send an opening again and again, as a driver does, and return the error that ends it."""
    reasons: list[str] = []

    def send() -> bool:
        try:
            gripper.send(opening)
        except DriverError as error:
            reasons.append(str(error))
        return bool(reasons)

    wait_until(send)
    return reasons[0]


@pytest.mark.parametrize("reason", ["no server of grip", "the server rejected the goal", "did not answer within 1 s"])
def test_a_gripper_that_takes_no_goals_is_an_error_until_the_next_episode(
    server: Server, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr("robo_rl.drivers.robot.gripper.RETRY_SECONDS", 0.0)
    gripper = GripperCommander(server, CONFIG)
    for _ in range(MOST_FAILURES):
        server.answers.put(DriverError(reason))
    try:
        assert sent_until_refused(gripper) == f"the gripper: 3 goals of grip in a row failed: {reason}"
        with pytest.raises(DriverError, match="3 goals of grip"):
            gripper.send(1.0)
        gripper.reset()
        server.answers.put(Accepted())
        gripper.send(0.0)
        wait_until(lambda: gripper._goals.runs_for() > 0)
        gripper.send(0.0)
    finally:
        gripper.close()
    assert len(server.sent) == MOST_FAILURES + 1


def test_a_gripper_whose_goals_are_accepted_now_and_then_goes_on(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robo_rl.drivers.robot.gripper.RETRY_SECONDS", 0.0)
    gripper, goal = GripperCommander(server, CONFIG), Accepted()
    for answer in [DriverError("busy"), DriverError("busy"), goal] * 2:
        server.answers.put(answer)
    try:
        for number in (1, 2):
            wait_until(lambda: gripper.send(0.5 * number) or len(server.sent) == 3 * number)  # noqa: B023
            wait_until(lambda: gripper._goals.settle(0.0))
            gripper.send(0.5 * number)
    finally:
        gripper.close()


def test_a_gripper_that_does_not_end_its_goal_is_an_error(server: Server) -> None:
    gripper, goal = GripperCommander(server, GripperConfig(kind="action", name="grip", timeout=0.05)), Accepted()
    server.answers.put(goal)
    try:
        assert "a goal of grip has not ended within 0.05 s; where" in sent_until_refused(gripper)
        goal.status = GoalStatus.SUCCEEDED
        gripper.send(0.0)
    finally:
        gripper.close()


@pytest.mark.parametrize("stalled", [False, True])
@pytest.mark.parametrize(
    ("ends", "named"),
    [
        (["ABORTED"], "aborted"),
        (["CANCELED"], "cancelled"),  # by another client, or by the server
        (["UNKNOWN"], "lost"),  # the server no longer knows the goal that it accepted
        (["ABORTED", "CANCELED"], "aborted or cancelled"),
    ],
)
def test_goals_that_fail_in_a_row_are_an_error_unless_the_fingers_met_something(
    server: Server, ends: list[str], named: str, stalled: bool
) -> None:
    gripper, failed = GripperCommander(server, CONFIG), ""
    try:
        for number in range(2 * MOST_FAILURES):
            goal = Accepted()
            goal.status = GoalStatus[ends[number % len(ends)]]
            result = goal.status, SimpleNamespace(position=0.0, stalled=stalled)
            goal.result = lambda timeout, result=result: result
            server.answers.put(goal)
            gripper.send(0.1 * number)
            wait_until(lambda: gripper._goals._goal is goal)  # noqa: B023
            try:
                gripper.send(0.1 * number)
            except DriverError as error:
                failed = str(error)
                break
    finally:
        gripper.close()
    expected = "" if stalled else f"the gripper: 3 goals of grip in a row were {named}, though no finger had stalled"
    assert failed == expected


@pytest.mark.parametrize("status", [GoalStatus.ABORTED, GoalStatus.SUCCEEDED])  # servers report a stall as either
@pytest.mark.parametrize(
    ("openings", "positions", "stuck"),
    [
        ((1.0, 0.0, 1.0, 0.0), (0.02, 0.02, 0.02, 0.02), True),
        ((0.0, 0.2, 0.9, 1.0), (0.03, 0.0301, 0.03, 0.03), True),
        ((0.5, 0.4, 0.3, 0.2), (0.03, 0.03, 0.03, 0.03), False),  # an object between the fingers
        ((1.0, 0.0, 1.0, 0.0), (0.03, 0.02, 0.03, 0.02), False),  # fingers between an object and the walls of a box
        ((1.0, 0.0, 1.0, 0.0), (0.04, 0.0, 0.04, 0.0), False),  # a server that calls every end a stall
        ((0.0, 1.0, 0.0, 1.0), (0.02, 0.04, 0.02, 0.04), False),  # an object, grasped and released
    ],
)
def test_fingers_that_stall_at_one_place_in_both_directions_are_an_error(
    server: Server, openings: tuple[float, ...], positions: tuple[float, ...], stuck: bool, status: GoalStatus
) -> None:
    gripper, failed = GripperCommander(server, replace(CONFIG, open=0.04)), ""
    try:
        for opening, position in zip(openings, positions, strict=True):
            goal = Accepted()
            goal.status, result = status, (status, SimpleNamespace(position=position, stalled=True))
            goal.result = lambda timeout, result=result: result
            server.answers.put(goal)
            try:
                gripper.send(opening)
                wait_until(lambda: gripper._goals._goal is goal)  # noqa: B023
                gripper.send(opening)
            except DriverError as error:
                failed = str(error)
                break
    finally:
        gripper.close()
    expected = f"the gripper: 3 goals of grip in a row stalled at {positions[0]:g}, while opening and while closing: "
    assert failed == (f"{expected}the fingers are stuck, or their position is not measured" if stuck else "")


def test_the_end_of_a_goal_does_not_count_for_the_next_one(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The opening that a stall is compared with is that of its own goal, although a newer one waits to be sent."""
    monkeypatch.setattr(GoalSender, "_run", lambda _: None)  # as if its thread did not come to its turn
    goals, goal = GoalSender(server, lambda _: None), Accepted()
    goal.status, goals._goal = GoalStatus.SUCCEEDED, goal
    assert goals.ended() == (GoalStatus.SUCCEEDED, RESULT)
    goals.send("next")
    assert goals.ended() is None
    goals.close()


def test_goals_that_fail_now_and_then_are_no_dead_gripper(server: Server) -> None:
    gripper = GripperCommander(server, CONFIG)
    try:
        for number, end in enumerate(["ABORTED", "CANCELED", "SUCCEEDED"] * 3):
            goal = Accepted()
            goal.status = GoalStatus[end]
            result = goal.status, SimpleNamespace(position=0.0, stalled=False)
            goal.result = lambda timeout, result=result: result
            server.answers.put(goal)
            gripper.send(0.1 * number)
            wait_until(lambda: gripper._goals._goal is goal)  # noqa: B023
            gripper.send(0.1 * number)
    finally:
        gripper.close()


@pytest.mark.parametrize(("end", "named"), [("ABORTED", "aborted"), ("CANCELED", "cancelled"), ("UNKNOWN", "lost")])
def test_a_goal_of_an_arm_that_nobody_asked_to_end_is_an_error(server: Server, end: str, named: str) -> None:
    """A second client of the trajectory controller cancels the driver's goal, and moves the arm in its place."""
    arm = ArmCommander(server, CommandConfig(kind="joint_trajectory_action", topic="follow"), ("a",), 0.1)
    goal, (target, pose) = Accepted(), joints()
    result = GoalStatus[end], SimpleNamespace(error_code=-1, error_string="another goal")
    goal.result = lambda timeout: result
    server.answers.put(goal)
    try:
        arm.send(target, pose)
        wait_until(lambda: arm._goals._goal is goal)
        arm.send(target, pose)
        goal.status = GoalStatus[end]
        with pytest.raises(DriverError, match=f"a goal of follow was not executed: {named} with code -1: another goal"):
            arm.send(target, pose)
        arm.stop()  # whose own cancellation is no failure of the next episode
        wait_until(lambda: arm._goals.settle(0.0))
        arm.reset()
        server.answers.put(Accepted())
        arm.send(*joints())
        arm.send(*joints())
    finally:
        arm.close()


@pytest.mark.parametrize("ended", [False, True])
def test_a_goal_whose_server_is_started_again_is_sent_to_the_new_one(
    server: Server, ended: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    gripper, first, second = GripperCommander(server, CONFIG), Accepted(), Accepted()
    server.answers.put(first)
    try:
        gripper.send(0.5)
        wait_until(lambda: gripper._goals._goal is first)
        if ended:
            first.status = GoalStatus.SUCCEEDED
        time.sleep(0.3)
        gripper.send(0.5)
        assert len(server.sent) == 1
        server.present = frozenset({"second"})
        server.answers.put(second)
        wait_until(lambda: gripper.send(0.5) or gripper._goals._goal is second)
    finally:
        gripper.close()
    assert server.positions() == [0.5, 0.5]
    said = "the gripper: a new server has taken its place; its goal of grip is sent again"
    assert said in capsys.readouterr().out


def test_a_gripper_whose_server_ends_is_dead_when_none_comes_back(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robo_rl.drivers.robot.gripper.RETRY_SECONDS", 0.0)
    gripper, goal = GripperCommander(server, CONFIG), Accepted()
    goal.status = GoalStatus.SUCCEEDED
    server.answers.put(goal)
    try:
        gripper.send(0.5)
        wait_until(lambda: gripper._goals._goal is goal)
        server.present = frozenset()
        for _ in range(MOST_FAILURES):
            server.answers.put(DriverError("no server of grip"))
        assert sent_until_refused(gripper, 0.5).endswith("in a row failed: no server of grip")
    finally:
        gripper.close()


def joints() -> tuple[ArmTarget, ArmPose]:
    return ArmTarget(joints=np.zeros(1)), ArmPose(np.zeros(3), np.eye(3))


@pytest.mark.parametrize(("there", "reason"), [((), "its server has ended"), (("new",), "a new server has taken its")])
def test_an_arm_whose_trajectory_server_is_lost_is_an_error(server: Server, there: Any, reason: str) -> None:
    arm = ArmCommander(server, CommandConfig(kind="joint_trajectory_action", topic="follow"), ("a",), 0.1)
    server.answers.put(Accepted())
    target, pose = joints()
    try:
        arm.send(target, pose)
        wait_until(lambda: arm._goals.runs_for() > 0)
        arm.send(target, pose)
        server.present = frozenset(there)
        wait_until(lambda: arm._goals.lost)
        for _ in range(2):
            with pytest.raises(DriverError, match=f"a goal of follow was not executed: {reason}"):
                arm.send(target, pose)
        arm.reset()
        arm.send(target, pose)
    finally:
        arm.close()


@pytest.mark.parametrize("kind", ["joint_positions", "joint_velocities", "joint_trajectory", "base_twist", "ackermann"])
def test_commands_that_nobody_hears_any_more_are_an_error(server: Server, kind: str) -> None:
    config = CommandConfig(kind=kind, topic="command")

    def send() -> None:
        if isinstance(commander, BaseCommander):
            commander.send(0.0, 0.1)
        else:
            commander.check()

    is_base = kind in ("base_twist", "ackermann")
    commander = BaseCommander(server, config) if is_base else ArmCommander(server, config, ("a",), 0.1)
    send()
    server.present = frozenset()
    with pytest.raises(DriverError, match="nobody listens to command any more"):
        send()


def test_a_gripper_on_a_topic_that_nobody_hears_any_more_is_an_error(server: Server) -> None:
    gripper = GripperCommander(server, GripperConfig(kind="positions", name="fingers"))
    gripper.send(0.5)
    server.present = frozenset()
    with pytest.raises(DriverError, match="nobody listens to fingers any more"):
        gripper.send(0.5)


@pytest.mark.parametrize("asked", ["send", "cancel"])
def test_what_is_still_to_be_answered_is_waited_for(server: Server, asked: str) -> None:
    """So that no goal is accepted, and none cancelled, when a reset is under way."""
    goals, goal = GoalSender(server, print), Accepted()
    assert goals.settle(0.0)
    try:
        goals.send("goal")
        assert not goals.settle(0.05)
        if asked == "cancel":
            goals.cancel()
        server.answers.put(goal)
        assert goals.settle(20.0)
        assert goal.cancelled == (asked == "cancel")
    finally:
        goals.close()

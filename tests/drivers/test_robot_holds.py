"""Robots whose own controller executes goals: what happens when they are told to hold."""

import time
from collections.abc import Iterator
from threading import Timer

import numpy as np
import pytest

from robo_rl.core import ArmPose, ArmTarget, DriverError, EmergencyStop, SafetyStop
from robo_rl.drivers.robot.commanding import ArmCommander
from robo_rl.drivers.robot.config import CommandConfig
from robo_rl.drivers.ros2 import GoalStatus

from ..rigs.goal_server import Accepted, Server
from ..rigs.robot_rig import composed, driver, wait_until


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    for _ in range(9):  # so that no thread waits
        made.answers.put(None)


def joints() -> tuple[ArmTarget, ArmPose]:
    return ArmTarget(joints=np.zeros(1)), ArmPose(np.zeros(3), np.eye(3))


TRAJECTORY = CommandConfig(kind="joint_trajectory_action", topic="follow")


@pytest.mark.parametrize("answers", [True, False], ids=["cancels and goes on", "does not answer"])
def test_a_goal_that_goes_on_after_a_hold_stops_the_robot_for_good(
    server: Server, answers: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("robo_rl.drivers.robot.goals.HOLD_SECONDS", 0.2)
    options = ("robot.command.kind=joint_trajectory_action", "robot.command.topic=follow")
    body = driver(composed("task.controller.action_space=joint_delta", *options))._body
    body.open(server)
    goal = Accepted()

    def cancel(timeout_s: float) -> bool:
        if not answers:
            raise DriverError("follow did not answer")
        return True

    goal.cancel = cancel
    server.answers.put(goal)
    try:
        body._arm.send(*joints())
        wait_until(lambda: body._arm._goals._goal is goal)
        body.hold(dict.fromkeys(body.layout.used))
        wait_until(lambda: EmergencyStop(robot="virtual").pressed())
        with pytest.raises(
            SafetyStop, match=r"robot virtual was told to stay where it is, but follow goes on: its goal"
        ):
            body.settle()
    finally:
        body.close()
    assert "Stopped: robot virtual was told to stay" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["ends", "is replaced", "its server has ended", "ends while the driver closes"])
def test_a_goal_that_ends_after_a_hold_stops_nothing(
    server: Server, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robo_rl.drivers.robot.goals.HOLD_SECONDS", 0.3)
    unheld: list[str] = []
    arm, goal = ArmCommander(server, TRAJECTORY, ("a",), 0.1, unheld.append), Accepted()
    server.answers.put(goal)
    try:
        arm.send(*joints())
        wait_until(lambda: arm._goals.runs_for() > 0)
        arm.stop()
        wait_until(lambda: goal.cancelled)
        if kind == "is replaced":
            server.answers.put(Accepted())
            arm.reset()
            arm.send(*joints())
        elif kind == "its server has ended":
            server.present = frozenset()
        elif kind == "ends":
            goal.status = GoalStatus.CANCELED
        else:
            Timer(0.1, lambda: setattr(goal, "status", GoalStatus.CANCELED)).start()
            arm.close()
        if kind == "ends":
            assert arm._goals.settle(5)
        time.sleep(0.5)
    finally:
        arm.close()
    assert unheld == []

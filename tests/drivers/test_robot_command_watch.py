"""A robot whose control loop hangs is stopped by its driver, if its commands do not end by themselves."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.core import PASSED, ManualClock, Observation, SafetyStop, StopButton, Verdict
from robo_rl.drivers.robot.command_watch import CommandWatch
from robo_rl.drivers.robot.commanding import BaseCommander
from robo_rl.drivers.robot.config import CommandConfig
from robo_rl.safety import SafeBackend
from robo_rl.safety.age import AgeLimit
from robo_rl.safety.chain import FilterChain

from ..rigs.robot_rig import Recorder, composed, driver, wait_until
from .test_robot_backend import MS, Driver, Speaking

JOINTS = ("task.controller.action_space=joint_delta", "task.controller.action_axes=gripper")
EFFORT = ("robot.command.stiffness=[100]", "robot.command.damping=[5]", "robot.command.effort=[20]")


class Robot(Driver):
    """The driver's node beside a robot that listens, also to goals."""

    def __init__(self) -> None:
        super().__init__()
        self.goals: list[Any] = []
        self.cancelled = 0

    def create_action_client(self, kind: str, name: str) -> Any:
        def cancel(_: float) -> None:
            self.cancelled += 1

        def send_goal(goal: Any, timeout_s: float) -> Any:
            self.goals.append(goal)
            return SimpleNamespace(status=2, cancel=cancel)

        return SimpleNamespace(send_goal=send_goal, wait=lambda _: True, servers=lambda: frozenset({"server"}))

    def look(self) -> None:
        """Call the timers, as the node's own thread does."""
        for timer in self.timers:
            timer()


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Robot:
    node = Robot()
    monkeypatch.setattr("robo_rl.drivers.robot.connection.open_node", lambda *_: node)
    node.graph = SimpleNamespace(services={}, unanswering=())  # type: ignore[attr-defined]
    return node


def connected(node: Robot, kind: str, *options: str) -> tuple[Any, Speaking]:
    """Return a connected driver with commands of ``kind``, and its clock."""
    words = ["robot.real_time_priority=0", f"robot.command.kind={kind}", "robot.command.topic=command", *options]
    backend = driver(composed(*words))
    backend.clock = clock = Speaking(node)
    backend.connect()
    backend.reset()
    return backend, clock


def is_rest(kind: str, message: Any) -> bool:
    """Return whether a command of a velocity or an effort is zero."""
    if kind == "twist":
        linear, angular = message.twist.linear, message.twist.angular
        return not any((linear.x, linear.y, linear.z, angular.x, angular.y, angular.z))
    return not np.any(message.data)


def go_on(node: Robot, clock: Speaking, looks: int) -> None:
    """Let 25 ms pass ``looks`` times without a command."""
    for _ in range(looks):
        clock.advance_ns(25 * MS)
        clock._speak(clock.now_ns() // MS)
        node.look()


@pytest.mark.parametrize("kind", ["twist", "joint_velocities", "joint_efforts"])
def test_an_arm_is_stopped_once_if_no_command_follows(
    node: Robot, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    space = () if kind == "twist" else (*JOINTS, "robot.command.rate=100")
    backend, clock = connected(node, kind, *space, *(EFFORT if kind == "joint_efforts" else ()))
    sent = node.published["command"]
    for _ in range(2):  # it goes on with the next command, and is stopped again
        backend.step(np.full(backend.spec.action.shape, 0.5, np.float32))
        before = len(sent)
        assert before and not is_rest(kind, sent[-1])
        node.look()
        assert len(sent) == before, "a command was sent just now"
        go_on(node, clock, 8)
        assert len(sent) == before + 1 and is_rest(kind, sent[-1])
    assert capsys.readouterr().out.count("is not moved any further: no command followed within 0.1 s") == 1
    backend.stop("a test")
    count = len(sent)
    clock.advance_ns(1000 * MS)
    node.look()
    assert len(sent) == count, "after the episode it stands still already"
    backend.close()


@pytest.mark.parametrize("kind", ["pose", "joint_positions", "joint_trajectory"])
def test_an_arm_that_takes_targets_stays_at_the_last_one(
    node: Robot, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    backend, clock = connected(node, kind, *(() if kind == "pose" else JOINTS))
    backend.step(np.full(backend.spec.action.shape, 0.5, np.float32))
    sent = node.published["command"]
    before = len(sent)
    go_on(node, clock, 8)
    assert before and len(sent) == before
    assert capsys.readouterr().out.count("is not moved any further") == 1
    backend.close()


def test_a_goal_of_a_trajectory_is_not_cancelled(node: Robot) -> None:
    backend, clock = connected(node, "joint_trajectory_action", *JOINTS)
    backend.step(np.full(backend.spec.action.shape, 0.5, np.float32))
    wait_until(lambda: node.goals)
    go_on(node, clock, 8)
    assert node.cancelled == 0
    backend.stop("a test")
    wait_until(lambda: node.cancelled == 1)
    backend.close()


def test_a_filter_that_hangs_does_not_keep_the_robot_moving(node: Robot) -> None:
    """The node's thread stops the robot meanwhile; what the filter returns at last is not executed."""
    backend, clock = connected(node, "twist")
    sent, hangs = node.published["command"], [0, 40]

    class Hanging:
        def reset(self) -> None: ...

        def __call__(self, observation: Observation, action: Any, now_ns: int) -> tuple[Any, Verdict]:
            for _ in range(hangs.pop(0)):
                clock.advance_ns(25 * MS)
                node.look()
            return action, PASSED

    chain = FilterChain([Hanging()], lambda _, action: action * 0, budget=0)
    safe = SafeBackend(backend, AgeLimit(chain, 0.1, 5), [], StopButton(None))
    action = np.full(backend.spec.action.shape, 0.5, np.float32)
    safe.reset(0)
    safe.step(action)
    assert not is_rest("twist", sent[-1])
    before = len(sent)
    with pytest.raises(SafetyStop) as stopped:
        safe.step(action)
    assert stopped.value.reason == "filter_fault"
    assert all(is_rest("twist", message) for message in sent[before:])
    assert len(sent) == before + 2, "stopped while the filter hung, and by the stop"
    safe.close()


@pytest.mark.parametrize("kind", ["base_twist", "ackermann"])
def test_a_mobile_base_is_stopped_once_if_no_command_follows(kind: str) -> None:
    node, clock = Recorder(), ManualClock()
    config = SimpleNamespace(name="car", command=CommandConfig(kind=kind, topic="go", timeout=0.1))
    commander = BaseCommander(node, config.command)
    watch = CommandWatch(node, clock, config, commander.stop)  # type: ignore[arg-type]
    (look,) = node.timers
    for _ in range(2):
        node.published["go"].clear()
        with watch.lock:
            watch.sent()
            commander.send(0.5, 1.0)
        for _ in range(8):
            clock.advance_ns(25 * MS)
            look()
        moving, still = node.published["go"]
        assert repr(moving) != repr(still)
    node.published["go"].clear()
    with watch.lock:
        watch.rest()
    clock.advance_ns(1000 * MS)
    look()
    assert not node.published["go"]

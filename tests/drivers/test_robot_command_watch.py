"""A robot whose control loop hangs is held by its driver, whatever kind of command it takes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.core import PASSED, Observation, SafetyStop, StopButton, Verdict
from robo_rl.safety import SafeBackend
from robo_rl.safety.age import AgeLimit
from robo_rl.safety.chain import FilterChain

from ..rigs.robot_rig import composed, driver, wait_until
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


def is_rest(kind: str, message: Any, home: np.ndarray) -> bool:
    """Return whether a command keeps an arm where it is."""
    if kind == "joint_positions":
        return bool(np.allclose(message.data, home, atol=1e-6))
    if kind == "joint_trajectory":
        return bool(np.allclose(message.points[0].positions, home, atol=1e-6))
    if kind == "twist":
        linear, angular = message.twist.linear, message.twist.angular
        return not any((linear.x, linear.y, linear.z, angular.x, angular.y, angular.z))
    return not np.any(message.data)


@pytest.mark.parametrize("kind", ["twist", "joint_positions", "joint_velocities", "joint_efforts", "joint_trajectory"])
def test_an_arm_is_held_once_if_no_command_follows(node: Robot, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    space = () if kind == "twist" else (*JOINTS, "robot.command.rate=100")
    backend, clock = connected(node, kind, *space, *(EFFORT if kind == "joint_efforts" else ()))
    states = clock.robot.published["joint_states"][-1]
    home = states.position[[list(states.name).index(name) for name in backend.robot.joints]]
    sent = node.published["command"]
    for _ in range(2):  # it goes on with the next command, and is held again
        backend.step(np.full(backend.spec.action.shape, 0.5, np.float32))
        before = len(sent)
        assert before and not is_rest(kind, sent[-1], home)
        node.look()
        assert len(sent) == before, "a command was sent just now"
        for _ in range(8):
            clock.advance_ns(25 * MS)
            clock._speak(clock.now_ns() // MS)
            node.look()
        assert len(sent) == before + 1 and is_rest(kind, sent[-1], home)
    assert capsys.readouterr().out.count("is held: no command followed within 0.1 s") == 1
    backend.stop("a test")
    count = len(sent)
    clock.advance_ns(1000 * MS)
    node.look()
    assert len(sent) == count, "after the episode it stands still already"
    backend.close()


def test_poses_stay_where_the_end_effector_is(node: Robot) -> None:
    backend, clock = connected(node, "pose")
    sent = node.published["command"]
    backend.step(np.full(backend.spec.action.shape, 0.5, np.float32))
    target = sent[-1].pose.position
    for _ in range(5):
        clock.advance_ns(25 * MS)
        clock._speak(clock.now_ns() // MS)
        node.look()
    held, measured = sent[-1].pose.position, backend._layout.pose(backend._sources.newest()).position
    assert abs(target.z - measured[2]) > 0.01
    assert [held.x, held.y, held.z] == pytest.approx(measured.tolist(), abs=1e-6)
    backend.close()


def test_a_goal_of_a_trajectory_is_cancelled(node: Robot) -> None:
    backend, clock = connected(node, "joint_trajectory_action", *JOINTS)
    backend.step(np.full(backend.spec.action.shape, 0.5, np.float32))
    wait_until(lambda: node.goals)
    clock.advance_ns(101 * MS)
    node.look()
    wait_until(lambda: node.cancelled == 1)
    backend.close()


def test_a_filter_that_hangs_does_not_keep_the_robot_moving(node: Robot) -> None:
    """The node's thread holds the robot meanwhile; what the filter returns at last is not executed."""
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
    assert not is_rest("twist", sent[-1], np.zeros(0))
    before = len(sent)
    with pytest.raises(SafetyStop) as stopped:
        safe.step(action)
    assert stopped.value.reason == "filter_fault"
    assert all(is_rest("twist", message, np.zeros(0)) for message in sent[before:])
    assert len(sent) == before + 2, "held while the filter hung, and by the stop"
    safe.close()

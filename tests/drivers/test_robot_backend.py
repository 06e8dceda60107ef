"""A robot's steps by an injected clock, with what a real one says: fault cases 1, 2 and 6."""

import contextlib
import copy
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.actor import ActionChoice, Actor
from robo_rl.core import (
    PASSED,
    DriverError,
    EnvBackend,
    ManualClock,
    SafetyStop,
    Source,
    matrix_of_quaternion,
    quaternion_of_matrix,
)
from robo_rl.drivers.virtual.config import VirtualRobotConfig
from robo_rl.drivers.virtual.topics import ArmTopics
from robo_rl.recording.excitation import TIMES, TimedBackend
from robo_rl.safety import make_safe_backend
from robo_rl.sim import make_backend
from robo_rl.sim.controller import exponential

from ..rigs.robot_rig import Recorder, composed, driver

MS = 1_000_000
POSES = "cartesian_impedance_controller/equilibrium_pose"
UP = np.array([0, 0, 1], np.float32)


class Driver(Recorder):
    """The driver's node, beside a robot that listens, and whose resets succeed."""

    problems = ()

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None: ...

    def create_client(self, kind: str, service: str) -> Any:
        answer = self.types.make(f"{kind}_Response", success=True)
        return SimpleNamespace(wait=lambda _: True, call=lambda *_: answer, servers=frozenset)


class Speaking(ManualClock):
    """A clock in whose time a robot at rest speaks, on each topic every 10 ms.

    Attributes:
        periods: of topics that speak otherwise [ms].
        silent: topics that say nothing until then [ns].
        robot: what it says.
    """

    def __init__(self, node: Recorder) -> None:
        super().__init__(1000 * MS)
        self._node, self.robot = node, Recorder()
        self.periods: dict[str, int] = {}
        self.silent: dict[str, int] = {}
        arm = make_backend("reach")
        arm.reset(0)
        topics = ArmTopics(self.robot, VirtualRobotConfig(), arm.as_robot(), print, hold=print)
        topics.publish_state()
        topics.publish_ready(True)

    def sleep_until_ns(self, deadline_ns: int) -> None:
        while self.now_ns() < deadline_ns:
            now_ms = self.now_ns() // MS + 1
            super().sleep_until_ns(min(now_ms * MS, deadline_ns))
            if self.now_ns() == now_ms * MS:
                self._speak(now_ms)

    def _speak(self, now_ms: int) -> None:
        for topic, take in self._node.taking.items():
            if now_ms % self.periods.get(topic, 10) == 0 and self.now_ns() >= self.silent.get(topic, 0):
                message = copy.deepcopy(self.robot.published[topic][-1])
                if hasattr(message, "header"):
                    message.header.stamp.sec, message.header.stamp.nanosec = divmod(self.now_ns(), 1000 * MS)
                take(message)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Driver:
    node = Driver()
    monkeypatch.setattr("robo_rl.drivers.robot.connection.open_node", lambda *_: node)
    return node


def speaking_robot(node: Driver, *options: str) -> tuple[EnvBackend, Speaking]:
    """Return a driver that is connected, with safety around it, and the clock of both."""
    inner = driver(composed("robot.real_time_priority=0", *options))
    inner.clock = clock = Speaking(node)
    inner.connect()
    return make_safe_backend(inner), clock


def test_a_slow_source_is_acted_on_for_as_long_as_its_own_limit_says(node):
    options = "task.control_rate=20", "task.max_episode_steps=200", "robot.sources.object.max_age=0.5"
    backend, clock = speaking_robot(node, *options)
    clock.periods["task/objects"] = 200
    backend.reset()
    for _ in range(40):
        step = backend.step(UP * 0)
        assert step.verdict is PASSED, step.verdict.message
    # For all others 0.1 s are allowed: a policy that takes longer does not act on them.
    clock.sleep_until_ns(clock.now_ns() + 105 * MS)
    assert backend.step(UP * 0).verdict.reasons == ("observation_stale",)
    backend.close()


def test_joints_are_recorded_with_their_own_time_beside_a_slow_source(node):
    options = "task.control_rate=20", "task.max_episode_steps=200", "robot.sources.object.max_age=0.5"
    backend, clock = speaking_robot(node, *options)
    clock.periods["task/objects"] = 200
    timed = TimedBackend(backend, factor=1.0)
    steps = [timed.reset(), *(timed.step(UP * 0) for _ in range(20))]
    measured = np.array([step.observation[TIMES][0] for step in steps])
    assert np.diff(measured).min() > 0.02, "the slow source is measured in every fourth period alone"
    assert min(np.diff([step.stamp_ns for step in steps])) < 20 * MS
    backend.close()


@pytest.mark.parametrize("silent_ms", [270, 10_000])
def test_a_step_in_which_the_robot_was_held_is_none(node, silent_ms):
    backend, clock = speaking_robot(node)
    actor, taken = Actor(backend, seed=0), []

    def take_steps() -> None:
        for _ in range(3):
            taken.append(actor.take_step(lambda _: ActionChoice(UP, Source.POLICY)))

    take_steps()
    began_ns, sent = clock.now_ns(), len(node.published[POSES])
    clock.silent["joint_states"] = began_ns + silent_ms * MS
    with pytest.raises(SafetyStop, match=r"fallen silent: joint_states is 0\.1\d s old \(0\.1 s are") as caught:
        take_steps()
    assert caught.value.reason == "driver_silent"
    assert clock.now_ns() - began_ns < 125 * MS, "at the first command that would follow"
    commands = node.published[POSES][sent:]
    assert commands[0].pose.position.z > commands[-1].pose.position.z + 0.005, "the last has it stay where it is"
    clock.silent.clear()
    take_steps()
    assert [each.episode for each in taken] == [0, 0, 0, 0, 1, 1, 1], "one more was whole: all was fresh until its end"
    assert all(100 * MS <= after.stamp_ns - before.stamp_ns <= 110 * MS for before, after in pairwise(taken[:4]))
    backend.close()


def test_sources_may_take_a_moment_after_a_reset(node):
    backend, clock = speaking_robot(node)
    for late_ms in (400, 1000):
        clock.silent["joint_states"] = clock.now_ns() + late_ms * MS
        if late_ms < 500:
            backend.reset()
        else:
            with pytest.raises(SafetyStop, match="joint_states never came"):
                backend.reset()
    backend.close()


def test_a_robot_at_rest_is_told_to_stay_where_it_is_once(node):
    backend, _ = speaking_robot(node)
    backend.reset()
    backend.step(UP)
    sent = len(node.published[POSES])
    for _ in range(3):
        backend.stop("a person")
    backend.close()
    assert len(node.published[POSES]) == sent + 1


def test_a_robot_is_not_told_to_stay_where_it_was_long_ago(node, capsys):
    backend, clock = speaking_robot(node)
    backend.reset()
    backend.step(UP)
    sent = len(node.published[POSES])
    clock.silent["joint_states"] = 10**18
    clock.sleep_until_ns(clock.now_ns() + 700 * MS)
    backend.stop("a person")
    backend.close()
    assert len(node.published[POSES]) == sent
    assert capsys.readouterr().out.count("joints did not say of late: it is left with what it does in silence") == 1


@pytest.mark.parametrize(
    ("turn", "shift", "message"),
    [
        (0.05, 0.04, None),
        (1.5, 0.0, r"measures its end effector turned by 1\.500 rad from how .* 0\.1 rad are allowed\. Give the task"),
        (0.0, 0.06, r"measures its end effector 0\.060 m from where .* \(robot\.pose_tolerance\)\. Give the task"),
        (0.2, 0.06, r"effector 0\.060 m from where .*\(robot\.pose_tolerance\), and turned by 0\.200 rad"),
    ],
)
def test_another_tool_frame_is_an_error(node, turn, shift, message):
    backend, clock = speaking_robot(node)
    pose = clock.robot.published["cartesian_pose_broadcaster/pose"][-1].pose
    measured = pose.orientation
    rotation = matrix_of_quaternion(np.array([measured.x, measured.y, measured.z, measured.w]))
    turned = quaternion_of_matrix(rotation @ exponential(np.array([0, 0, turn])))
    measured.x, measured.y, measured.z, measured.w = turned.tolist()
    pose.position.y += shift
    if message is None:
        backend.reset()
    else:
        with pytest.raises(DriverError, match=message):
            backend.reset()
    backend.close()


def _with_names(message: Any, places: list[int], names: list[str]) -> None:
    """Have a JointState say what it says at ``places``, under other names."""
    message.name = names
    for field in ("position", "velocity", "effort"):
        values = getattr(message, field)
        setattr(message, field, values[places] if len(values) else values)


OTHER_JOINTS = [
    (lambda names: {f"left_{name}": name for name in names}, "gives none of .*joint7.*, but left_"),
    (lambda names: {}, "gives none of .*, but no names"),
    (lambda names: {name: name for name in names[7:]}, "gives none of .*, but finger_joint1"),
    (lambda names: {name: name for name in names[:4]}, "expected 'joint5', got joint1, |gives none of finger"),
    (lambda names: {name.replace("3", "8"): name for name in names}, "expected 'joint3', got"),
    (lambda names: {name: name for name in names[::-1]}, ""),
]
"""Joints that a robot may have when it comes back, by those that it had, and what is said of them."""


def test_a_robot_that_comes_back_with_other_joints_is_told_which(node):
    backend, clock = speaking_robot(node)
    spoken = clock.robot.published["joint_states"]
    message = spoken[-1]
    names = list(message.name)
    for change, text in OTHER_JOINTS:
        spoken[-1] = message
        backend.reset()
        spoken[-1], changed = copy.deepcopy(message), change(names)
        _with_names(spoken[-1], [names.index(name) for name in changed.values()], list(changed))
        for begins in (False, True):
            with pytest.raises(SafetyStop, match=text) if text else contextlib.nullcontext() as stop:
                if begins:
                    backend.reset()
                for _ in range(3):
                    backend.step(UP * 0)
            assert not text or stop.value.reason in ("driver_silent", "observation_invalid")
    backend.close()

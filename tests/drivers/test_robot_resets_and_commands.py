"""Commands from before a reset: the driver waits until they are received, the virtual robot obeys none of them."""

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.core import DriverError, SafetyStop
from robo_rl.drivers.virtual.config import VirtualRobotConfig
from robo_rl.drivers.virtual.topics import DEAF_TICKS, ArmTopics, CarTopics
from robo_rl.sim import make_backend
from robo_rl.sim.config import ControllerConfig

from ..rigs.robot_rig import Recorder, composed, driver, wait_until
from .test_robot_backend import MS, UP, Driver, Speaking

POSES = "cartesian_impedance_controller/equilibrium_pose"
NUMBERS, POSE = "std_msgs/msg/Float64MultiArray", "geometry_msgs/msg/PoseStamped"
ACKERMANN, TWIST = "ackermann_msgs/msg/AckermannDriveStamped", "geometry_msgs/msg/Twist"


def topics_of(task: str, node: Recorder, obeyed: list[Any]) -> Any:
    if task == "drive":
        return CarTopics(node, VirtualRobotConfig(), make_backend("drive", autonomous=False).as_robot(), obeyed.append)
    space = {"controller": ControllerConfig(action_space="joint_delta")} if task == "joints" else {}
    arm = make_backend("pick_cube", **space).as_robot()
    return ArmTopics(node, VirtualRobotConfig(), arm, obeyed.append, hold=print)


@pytest.mark.parametrize(
    ("task", "topic", "kind", "fields"),
    [
        ("pose", POSES, POSE, {"pose": {"orientation": {"w": 1.0}}}),
        ("pose", "gripper_controller/commands", NUMBERS, {"data": [0.01, 0.01]}),
        ("joints", "forward_position_controller/commands", NUMBERS, {"data": np.zeros(7)}),
        ("drive", "drive", ACKERMANN, {"drive": {"speed": 0.5}}),
        ("drive", "cmd_vel", TWIST, {"linear": {"x": 0.5}}),
    ],
)
def test_what_waited_while_a_reset_was_answered_is_not_obeyed_after_it(
    task: str, topic: str, kind: str, fields: dict[str, Any]
) -> None:
    node, obeyed = Recorder(), []
    topics = topics_of(task, node, obeyed)
    message = node.types.make(kind, **fields)
    node.taking[topic](message)
    assert len(obeyed) == 1
    topics.end_motion("the robot was reset")  # the node's thread stands still meanwhile
    for _ in range(DEAF_TICKS):
        node.taking[topic](message)
        assert len(obeyed) == 1
        for timer in node.timers:
            timer()
    node.taking[topic](message)
    assert len(obeyed) == 2, "what comes after it is obeyed"


def test_a_trajectory_from_before_a_reset_does_not_begin_after_it() -> None:
    node = Recorder()
    topics = topics_of("joints", node, [])
    topics.publish_state()
    switch = "controller_manager_msgs/srv/SwitchController_Request"
    names = {
        "activate_controllers": ["joint_trajectory_controller"],
        "deactivate_controllers": ["forward_position_controller"],
    }
    assert node.taking["controller_manager/switch_controller"](node.types.make(switch, **names)).ok
    point = {"positions": np.zeros(7), "time_from_start": {"sec": 1}}
    kind = "trajectory_msgs/msg/JointTrajectory"
    message = node.types.make(kind, joint_names=list(topics._arm.joints), points=[point])
    take = node.taking["joint_trajectory_controller/joint_trajectory"]
    topics.end_motion("the robot was reset")
    take(message)
    assert topics._trajectories._path is None
    for _ in range(DEAF_TICKS):
        topics._tick()
    take(message)
    assert topics._trajectories._path is not None


def test_a_goal_of_the_gripper_ends_with_the_reset() -> None:
    node, obeyed, ended = Recorder(), [], []
    topics = topics_of("pose", node, obeyed)
    topics._fingers = np.array([0.03, 0.03])
    goal = SimpleNamespace(
        request=SimpleNamespace(command=SimpleNamespace(position=0.0)),
        cancel_requested=False,
        abort=lambda: ended.append("aborted"),
    )
    grip = node.taking["gripper_controller/gripper_cmd"]
    execution = threading.Thread(target=grip, args=(goal,), daemon=True)
    execution.start()
    wait_until(lambda: obeyed)
    topics.end_motion("the robot was reset")
    execution.join(10)
    goal.cancel_requested = True  # too late: it would have the fingers stay where they are
    assert ended == ["aborted"] and len(obeyed) == 1


class Noted(Driver):
    """A node that notes what is published and called, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, int]] = []
        self.clock: Speaking | None = None
        self.heard = 1
        self.subscriptions: dict[str, Any] = {}
        self.graph = SimpleNamespace(topics={}, services={})

    def note(self, event: str) -> None:
        self.events.append((event, 0 if self.clock is None else self.clock.now_ns()))

    def create_subscription(self, kind: str, topic: str, callback: Any, qos: Any) -> Any:
        super().create_subscription(kind, topic, callback, qos)
        return self.subscriptions.setdefault(topic, SimpleNamespace(topic=topic, matched_count=1))

    def create_publisher(self, kind: str, topic: str, qos: Any) -> Any:
        made = super().create_publisher(kind, topic, qos)
        send, node = made.publish, self

        class Publisher(SimpleNamespace):
            @property
            def matched_count(self) -> int:
                return node.heard

        def publish(message: Any) -> None:
            node.note("command")
            send(message)

        acked = lambda _: node.note("received") or True  # noqa: E731
        return Publisher(
            topic=topic, message_type=kind, publish=publish, repeater=made.repeater, wait_for_all_acked=acked
        )

    def create_client(self, kind: str, service: str) -> Any:
        client = super().create_client(kind, service)

        def call(*_: Any) -> Any:
            self.note(service)
            return client.call()

        return SimpleNamespace(wait=lambda _: True, call=call, servers=frozenset)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Noted:
    node = Noted()
    monkeypatch.setattr("robo_rl.drivers.robot.connection.open_node", lambda *_: node)
    return node


@pytest.mark.parametrize("ends", ["another episode", "a stop", "the limit of steps"])
def test_a_robot_is_reset_only_when_it_has_received_its_last_command(node: Noted, ends: str) -> None:
    inner = driver(composed("robot.real_time_priority=0", "task.max_episode_steps=2"))
    inner.clock = node.clock = Speaking(node)
    inner.connect()
    inner.reset()
    for _ in range(2 if ends == "the limit of steps" else 1):
        inner.step(UP)
    if ends == "a stop":
        inner.stop("a person")
    inner.reset()
    kinds = [event for event, _ in node.events]
    last = kinds.index("reset", kinds.index("command"))
    assert kinds[last - 3 : last + 1] == ["command", "received", "received", "reset"], "of arm and gripper"
    assert node.events[last][1] - node.events[last - 1][1] >= 50 * MS
    inner.close()


def test_a_robot_that_does_not_hear_commands_is_waited_for_and_not_reset(node: Noted) -> None:
    inner = driver(composed("robot.real_time_priority=0"))
    inner.clock = node.clock = Speaking(node)
    inner.connect()
    inner.reset()
    inner.step(UP)
    resets = [event for event, _ in node.events].count("reset")
    node.heard = 0
    with pytest.raises(SafetyStop, match=f"nobody listens to {POSES} any more") as refused:
        inner.step(UP)
    assert refused.value.reason == "command_refused"
    with pytest.raises(SafetyStop, match=f"nobody listens to {POSES}; .*: it is waited for") as away:
        inner.reset()
    assert away.value.reason == "robot_away" and away.value.waits
    assert [event for event, _ in node.events].count("reset") == resets
    node.heard = 1
    inner.reset()
    inner.close()


SOURCES = ["joint_states", "broadcaster/pose", "/wrench", "task/rewards"]


@pytest.mark.parametrize("lost", [[topic] for topic in SOURCES] + [SOURCES])
def test_a_robot_that_comes_back_bit_by_bit_is_not_reset_before_all_of_it_is_back(node: Noted, lost: list[str]) -> None:
    """A camera may need longer than the arm, which would be driven home once more at each attempt."""
    inner = driver(composed("robot.real_time_priority=0"))
    inner.clock = node.clock = Speaking(node)
    inner.reset()
    known = [topic for topic in node.subscriptions if any(topic.endswith(name) for name in lost)]
    assert known
    inner.step(UP)
    resets = [event for event, _ in node.events].count("reset")
    for topic in known:
        node.subscriptions[topic].matched_count = 0
    for _ in range(3):
        with pytest.raises(SafetyStop, match=f"nobody publishes {known[0]}.*: it is waited for") as away:
            inner.reset()
        assert away.value.waits
    assert [event for event, _ in node.events].count("reset") == resets
    for topic in known:
        node.subscriptions[topic].matched_count = 1
    inner.reset()
    inner.close()


@pytest.mark.parametrize(
    "problem", ["no controller 'arm'", "controller 'arm' is unconfigured", "no server of /list_controllers was there"]
)
def test_controllers_that_a_robot_loads_again_are_waited_for_and_it_is_not_reset_meanwhile(
    node: Noted, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails: list[bool] = [True]

    class Controllers:
        def __init__(self, *_: Any) -> None: ...
        def missing(self) -> list[str]:
            return []

        def activate(self) -> None:
            if fails and fails.pop(0):
                raise DriverError(problem)

        def give_back(self) -> None: ...

    monkeypatch.setattr("robo_rl.drivers.robot.connection.ControllerSwitch", Controllers)
    inner = driver(composed("robot.real_time_priority=0"))
    inner.clock = node.clock = Speaking(node)
    with pytest.raises(DriverError, match=problem):  # of the configuration
        inner.reset()
    inner.reset()
    resets = [event for event, _ in node.events].count("reset")
    fails += [True, True, False, True]
    for reason, count in (("robot_away", 0), ("robot_away", 0), ("controllers_inactive", 1)):
        with pytest.raises(SafetyStop, match=problem) as stop:
            inner.reset()
        assert stop.value.reason == reason
        assert [event for event, _ in node.events].count("reset") == resets + count
    inner.reset()
    inner.close()

"""Stops by topic, from publishers of every profile, over real DDS."""

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from robo_rl.drivers.ros2 import LATCHED, Node, QoSProfile, open_node
from robo_rl.drivers.ros2.dds.services import HEADER
from robo_rl.drivers.ros2.qos import SERVICES
from robo_rl.drivers.stop_topic import REARM, REPEAT_SECONDS, STOP, listen_for_rearm, listen_for_stop
from robo_rl.drivers.teleop.config import SteeringConfig
from robo_rl.drivers.teleop.steering import SteeringNode

from ..rigs.ros2_domain import free_domain
from ..rigs.ros2_rig import TRIGGER, wait_until


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Node, Node]]:
    with free_domain() as environment:
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        with (
            open_node("robot", implementation="dds") as robot,
            open_node("person", implementation="dds") as person,
        ):
            yield robot, person


PROFILES = {
    "best_effort": QoSProfile(reliability="best_effort"),
    "volatile": QoSProfile(),
    "latched": LATCHED,
    "latched, best_effort": QoSProfile(reliability="best_effort", durability="transient_local"),
}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_stop_is_heard_whatever_it_is_published_with_and_nothing_is_said_of_profiles(
    nodes: tuple[Node, Node], profile: str
) -> None:
    robot, person = nodes
    stopped = threading.Event()
    listen_for_stop(robot, "~/stop", stopped.set)
    publisher = person.create_publisher(STOP, "/robot/stop", PROFILES[profile])
    wait_until(lambda: publisher.matched_count >= 1 and robot.offered("/robot/stop"))
    time.sleep(0.1)
    publisher.publish(person.types.make(STOP, data=False))
    assert not stopped.wait(0.3), "false stops nothing"
    publisher.publish(person.types.make(STOP, data=True))
    assert stopped.wait(10)
    assert robot.problems == () == person.problems


def test_a_latched_stop_is_heard_by_who_comes_later_and_a_rearm_is_not(nodes: tuple[Node, Node]) -> None:
    robot, person = nodes
    messages: list[str] = []
    person.create_publisher(REARM, "/robot/rearm", LATCHED).publish(person.types.make(REARM))
    person.create_publisher(STOP, "/robot/stop", LATCHED).publish(person.types.make(STOP, data=True))
    wait_until(lambda: len(robot.offered("/robot/rearm")) == len(robot.offered("/robot/stop")) == 1)
    listen_for_rearm(robot, "~/rearm", lambda: messages.append("rearm"))
    listen_for_stop(robot, "~/stop", lambda: messages.append("stop"))
    wait_until(lambda: messages)
    time.sleep(0.3)
    assert messages == ["stop"]
    again = person.create_publisher(REARM, "/robot/rearm")
    wait_until(lambda: again.matched_count)
    again.publish(person.types.make(REARM))
    wait_until(lambda: messages == ["stop", "rearm"])


@pytest.mark.parametrize(
    ("identities", "lines"),
    [(["clientid=1;"], 1), ([f"clientid={number};" for number in range(4)], 1), ([""], 0), (["clientid=;other=1;"], 1)],
    ids=["one", "four", "without a name", "with an empty name"],
)
def test_clients_that_await_no_answer_do_not_hold_up_a_stop(
    nodes: tuple[Node, Node],
    identities: list[str],
    lines: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The callbacks of a node take turns, and each of theirs would wait for a reader that never comes."""
    monkeypatch.setattr("robo_rl.drivers.ros2.dds.services.CLIENT_READER_SECONDS", 0.3)
    robot, person = nodes
    calls: list[int] = []
    stopped = threading.Event()

    def answer(request: Any) -> Any:
        calls.append(1)
        return robot.types.make(f"{TRIGGER}_Response", success=True)

    robot.create_service(TRIGGER, "~/emergency_stop", answer)
    listen_for_stop(robot, "~/stop", stopped.set)
    publisher = person.create_publisher(STOP, "/robot/stop")
    plain: Any = person
    topic, request = "rq/robot/emergency_stopRequest", bytes(4 + HEADER.size + 1)
    writers = [plain._endpoints.writer(f"{TRIGGER}_Request", topic, SERVICES, identity) for identity in identities]
    wait_until(lambda: publisher.matched_count >= 2 and all(writer.matched() for writer in writers))
    for writer in writers:
        for _ in range(60 // len(writers)):
            writer.write(bytearray(b"\0\1" + request[2:]))
    began = time.monotonic()
    publisher.publish(person.types.make(STOP, data=True))
    assert stopped.wait(20) and time.monotonic() - began < 6, "60 waits of 0.3 s are longer, 4 shorter"
    wait_until(lambda: len(calls) == 60)
    assert caplog.text.count("does not listen for the answer") == lines
    client = person.create_client(TRIGGER, "/robot/emergency_stop")
    assert client.call(person.types.make(f"{TRIGGER}_Request"), 20.0).success


def test_a_stop_that_is_repeated_is_pressed_again_but_not_all_the_time(nodes: tuple[Node, Node]) -> None:
    robot, person = nodes
    presses: list[float] = []
    listen_for_stop(robot, "~/stop", lambda: presses.append(time.monotonic()))
    publisher = person.create_publisher(STOP, "/robot/stop")
    wait_until(lambda: publisher.matched_count == 2)
    for _ in range(60):
        publisher.publish(person.types.make(STOP, data=True))
        time.sleep(0.01)
    wait_until(lambda: len(presses) >= 2)
    assert all(later - earlier >= REPEAT_SECONDS for earlier, later in itertools.pairwise(presses))


def test_whoever_steers_a_training_may_stop_by_topic(nodes: tuple[Node, Node]) -> None:
    _, person = nodes
    pressed: list[str] = []

    def press() -> str:
        pressed.append("pressed")
        return ""

    steering = SteeringNode(SteeringConfig(implementation="dds"), press)
    try:
        publisher = person.create_publisher(STOP, "/robo_rl/emergency_stop")
        wait_until(lambda: publisher.matched_count == 2)
        publisher.publish(person.types.make(STOP, data=True))
        wait_until(lambda: pressed)
        assert "emergency_stop" in steering.take_buttons()
    finally:
        steering.close()

"""Topics of drivers/ros2 between processes, over DDS on loopback."""

import os
import signal
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.drivers.ros2 import LATCHED, Node, QoSProfile, open_node
from robo_rl.drivers.ros2.dds import library

from ..rigs.ros2_domain import free_domain
from ..rigs.ros2_rig import (
    BEST_EFFORT,
    HEIGHT,
    IMAGE,
    IMAGES,
    JOINT_MESSAGES,
    JOINTS,
    STREAM,
    STRING,
    TRIGGER,
    WIDTH,
    peer,
    wait_until,
)


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with free_domain() as found, peer(found):
        yield found


@pytest.fixture
def node(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    with open_node("tester", implementation="dds") as opened:
        yield opened


def ask(node: Node, service: str) -> None:
    client = node.create_client(TRIGGER, service)
    assert client.call(node.types.make(f"{TRIGGER}_Request"), 60.0).success


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "public"])
def test_messages_come_back_as_they_went(node: Node, raw: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert library.why_not_raw() is None
    monkeypatch.setattr(library, "RAW", raw)
    heard: list[Any] = []
    node.create_subscription(JOINTS, "echo/out", heard.append, STREAM)
    publisher = node.create_publisher(JOINTS, "echo/in", STREAM)
    wait_until(lambda: publisher.matched_count and node.graph.topics.get("/echo/out"))
    rng = np.random.default_rng(0)
    sent = [
        node.types.make(JOINTS, header={"stamp": node.now()}, name=["shoulder"] * n, position=rng.normal(size=n))
        for n in range(5)
    ]
    opening = node.types.make(JOINTS, name=["opening"])
    wait_until(lambda: (publisher.publish(opening), time.sleep(0.05), heard)[-1])  # until the way back is open too
    for message in sent:
        publisher.publish(message)
    # The same bytes written over and over, faster than they are read: each message still is what it was when sent.
    repeater = publisher.repeater(sent[3])
    for second in range(20):
        stamp = node.types.make("builtin_interfaces/msg/Time", sec=second)
        message = node.types.make(JOINTS, header={"stamp": stamp}, name=sent[3].name, position=rng.normal(size=3))
        sent.append(message)
        repeater.publish(stamp, message.position)

    def back() -> list[Any]:
        return [echo for echo in heard if echo.name != opening.name]

    wait_until(lambda: len(back()) >= len(sent))
    for message, echo in zip(sent, back(), strict=True):
        assert echo.header.stamp == message.header.stamp
        assert echo.name == message.name
        assert np.array_equal(echo.position, message.position)


def test_best_effort_and_the_newest_message(node: Node) -> None:
    assert node.create_subscription(STRING, "unused", None, BEST_EFFORT).latest() is None
    rough = node.create_subscription(STRING, "rough", None, BEST_EFFORT)
    wait_until(lambda: rough.latest())
    message, received = rough.latest() or pytest.fail("gone")
    assert message.data == "again" and 0 <= time.monotonic_ns() - received < 60e9
    assert rough.latest()[0] is message or rough.latest()[1] > received  # type: ignore[index]
    assert rough.matched_count == 1


def test_latched_messages_reach_later_subscriptions(node: Node) -> None:
    volatile = node.create_subscription(STRING, "description", None)
    wait_until(lambda: volatile.matched_count)
    time.sleep(0.2)
    assert volatile.latest() is None
    description = node.create_subscription(STRING, "description", None, LATCHED)
    wait_until(lambda: description.latest())
    assert description.latest()[0].data == "a robot"  # type: ignore[index]


def test_joint_states_at_1_khz_without_loss(node: Node) -> None:
    numbers: list[int] = []
    subscription = node.create_subscription(
        JOINTS, "joints", lambda message: numbers.append(int(message.name[0])), STREAM
    )
    wait_until(lambda: subscription.matched_count)
    ask(node, "send_joints")
    wait_until(lambda: len(numbers) >= JOINT_MESSAGES)
    assert numbers == list(range(JOINT_MESSAGES))


def test_images_arrive_whole(node: Node) -> None:
    images: list[bool] = []

    def check(message: object) -> None:
        data = message.data  # type: ignore[attr-defined]
        right = message.header.frame_id == str(zlib.crc32(data.tobytes()))  # type: ignore[attr-defined]
        images.append(right and data.shape == (HEIGHT * WIDTH * 3,) and data.dtype == np.uint8)

    subscription = node.create_subscription(IMAGE, "images", check, QoSProfile(depth=IMAGES))
    wait_until(lambda: subscription.matched_count)
    ask(node, "send_images")
    wait_until(lambda: len(images) >= IMAGES)
    assert images == [True] * IMAGES


def test_a_value_that_does_not_fit_is_refused(node: Node) -> None:
    publisher = node.create_publisher(JOINTS, "elsewhere")
    message = node.types.make(JOINTS)
    message.position = "wrong"
    with pytest.raises(ConfigError, match=r"sensor_msgs/msg/JointState cannot be sent.*types\.make"):
        publisher.publish(message)


def test_a_callback_that_fails_is_called_again(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise RuntimeError("as it should")

    timer = node.create_timer(0.01, fail)
    wait_until(lambda: len(calls) >= 3)
    timer.cancel()
    assert "A callback failed" in caplog.text and "as it should" in caplog.text


def test_one_failure_costs_no_other_message(node: Node) -> None:
    """A failing callback is called for the messages that were taken together with the one it failed on."""
    numbers: list[int] = []

    def fail_at_first(message: Any) -> None:
        numbers.append(int(message.name[0]))
        if numbers == [0]:
            time.sleep(0.1)  # others come meanwhile
        if message.name[0] in ("0", "1", "2"):
            raise RuntimeError("as it should")

    subscription = node.create_subscription(JOINTS, "own", fail_at_first, STREAM)
    publisher = node.create_publisher(JOINTS, "own", STREAM)
    wait_until(lambda: publisher.matched_count and subscription.matched_count)
    for number in range(50):
        publisher.publish(node.types.make(JOINTS, name=[str(number)]))
    wait_until(lambda: len(numbers) >= 50)
    assert numbers == list(range(50))


def test_timers_leave_out_what_they_missed(node: Node) -> None:
    times: list[float] = []
    began = time.monotonic()

    def slow() -> None:
        times.append(time.monotonic() - began)
        if len(times) == 1:
            time.sleep(0.35)

    timer = node.create_timer(0.1, slow)
    wait_until(lambda: len(times) >= 3)
    timer.cancel()
    assert times[1] >= times[0] + 0.35
    seen = len(times)
    time.sleep(0.25)
    assert len(times) <= seen + 1  # one may have been under way


def test_a_stopped_reader_does_not_freeze_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    with free_domain() as environment, peer(environment, "--bare") as stopped:
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        with open_node("writer", implementation="dds") as node:
            publisher = node.create_publisher(IMAGE, "images", QoSProfile(history="keep_all"))
            wait_until(lambda: publisher.matched_count)
            image = node.types.make(IMAGE, data=np.zeros(1_000_000, np.uint8))
            published = 0
            ending = threading.Event()

            def publish() -> None:
                nonlocal published
                while not ending.is_set():
                    publisher.publish(image)
                    published += 1

            writer = threading.Thread(target=publish, daemon=True)
            os.kill(stopped.pid, signal.SIGSTOP)
            try:
                writer.start()
                gaps, last, before = [], time.monotonic(), -1
                deadline = last + 30.0
                still = 0
                while still < 100:  # until the writer has stood still for a while
                    time.sleep(0.005)
                    now = time.monotonic()
                    assert now < deadline, "the writer never had to wait"
                    gaps.append(now - last)
                    still, before, last = still + 1 if published == before else 0, published, now
                assert max(gaps[-100:]) < 1.0
                held = published
            finally:
                ending.set()
                os.kill(stopped.pid, signal.SIGCONT)
            writer.join(20.0)
            assert not writer.is_alive() and published > held

"""With which profile a robot's topics are listened to, and what is said where one gives nothing."""

from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.core import ManualClock
from robo_rl.drivers.robot.assembly import ObservationAssembler
from robo_rl.drivers.robot.config import SourceConfig
from robo_rl.drivers.robot.listening import DISCOVERY_NS, Listener, timings_of
from robo_rl.drivers.ros2 import QoSProfile

IMAGE, JOINTS = "sensor_msgs/msg/Image", "sensor_msgs/msg/JointState"
RELIABLE, ROUGH = QoSProfile(), QoSProfile(reliability="best_effort")


class Laboratory:
    """A node that others publish to: their profiles and types by topic."""

    def __init__(self, published: dict[str, tuple[str, tuple[QoSProfile, ...]]]) -> None:
        self.published, self.made = published, {}
        self.graph = SimpleNamespace(topics={topic: (kind,) for topic, (kind, _) in published.items()})

    def offered(self, topic: str) -> tuple[QoSProfile, ...]:
        return self.published.get(topic, ("", ()))[1]

    def create_subscription(self, kind: str, topic: str, callback: Any, qos: QoSProfile) -> Any:
        self.made[topic] = qos, callback
        return SimpleNamespace(topic=topic, matched_count=len(self.offered(topic)))


def listen(laboratory: Laboratory, clock: ManualClock, **sources: SourceConfig) -> Listener:
    return Listener(laboratory, sources, {}, clock, ObservationAssembler(timings_of(sources)))  # type: ignore[arg-type]


def camera(topic: str, reliability: str = "auto", kind: str = IMAGE) -> SourceConfig:
    return SourceConfig(topic, kind, f"images/{topic.strip('/')}", reliability=reliability)


@pytest.mark.parametrize(
    ("reliability", "offered", "chosen"),
    [
        ("auto", (RELIABLE,), "reliable"),
        ("auto", (RELIABLE, RELIABLE), "reliable"),
        ("auto", (RELIABLE, ROUGH), "best_effort"),
        ("auto", (ROUGH,), "best_effort"),
        ("auto", (), "best_effort"),
        ("best_effort", (RELIABLE,), "best_effort"),
        ("reliable", (), "reliable"),
    ],
)
def test_images_are_listened_to_as_they_are_offered(
    reliability: str, offered: tuple[QoSProfile, ...], chosen: str
) -> None:
    for kind in (IMAGE, "sensor_msgs/msg/CompressedImage"):
        laboratory, clock = Laboratory({"/front": (kind, offered)}), ManualClock()
        began_ns = clock.now_ns()
        listener = listen(laboratory, clock, front=camera("/front", reliability, kind))
        assert laboratory.made["/front"][0].reliability == chosen == listener.images["front"].reliability
        waits = reliability == "auto" and not offered
        assert (clock.now_ns() - began_ns >= DISCOVERY_NS) == waits, "publishers are waited for, where they decide"


def test_what_takes_one_packet_is_listened_to_with_best_effort_at_once() -> None:
    laboratory, clock = Laboratory({"/joint_states": (JOINTS, (RELIABLE,))}), ManualClock()
    joints = SourceConfig("/joint_states", JOINTS, "joints")
    ready = SourceConfig("/ready", "std_msgs/msg/Bool", "ready", latched=True)
    began_ns = clock.now_ns()
    listen(laboratory, clock, joints=joints, ready=ready)
    assert laboratory.made["/joint_states"][0].reliability == "best_effort"
    assert laboratory.made["/ready"][0].durability == "transient_local"
    assert clock.now_ns() == began_ns


def test_topics_of_the_same_type_are_named_the_same_last_name_first() -> None:
    published = {
        "/a/states": (JOINTS, (RELIABLE,)),
        "/left/joint_states": (JOINTS, (RELIABLE,)),
        "/right/joint_states": (JOINTS, (ROUGH,)),
        "/heard/joint_states": (JOINTS, ()),  # somebody listens there, as we do
        "/front": (IMAGE, (RELIABLE,)),
    }
    joints = SourceConfig("/joint_states", JOINTS, "joints")
    listener = listen(Laboratory(published), ManualClock(), joints=joints)
    expected = "published with this type are /left/joint_states, /right/joint_states, /a/states"
    assert listener.advice("joints") == expected
    assert listen(Laboratory({}), ManualClock(), joints=joints).advice("joints") == ""


@pytest.mark.parametrize(
    ("before", "later", "said"),
    [
        ((), (RELIABLE,), "it is published reliable and subscribed to best_effort, as"),
        ((ROUGH,), (RELIABLE, RELIABLE), "it is published reliable and subscribed to best_effort, as"),
        ((RELIABLE,), (ROUGH,), "it is published best_effort and subscribed to reliable, as"),
        ((RELIABLE,), (RELIABLE, ROUGH), "it is published best_effort and subscribed to reliable, as"),
        ((RELIABLE,), (RELIABLE,), "no image, reliable"),
        ((RELIABLE,), (), ""),
    ],
)
def test_a_camera_that_comes_later_or_comes_back_otherwise_is_said_to(before: Any, later: Any, said: str) -> None:
    laboratory = Laboratory({"/front": (IMAGE, before)})
    listener = listen(laboratory, ManualClock(), front=camera("/front"))
    laboratory.published["/front"] = IMAGE, later
    listener.subscriptions["front"].matched_count = len(later)
    assert listener.advice("front").startswith(said) and (said or not listener.advice("front"))
    fixed = listen(laboratory, ManualClock(), front=camera("/front", "best_effort"))
    assert "start robo-rl again" not in fixed.advice("front"), "it is as it is configured"


def test_what_was_seen_of_images_is_said_with_what_helps() -> None:
    laboratory, clock = Laboratory({"/rough": (IMAGE, (ROUGH,)), "/good": (IMAGE, (RELIABLE,))}), ManualClock()
    listener = listen(laboratory, clock, rough=camera("/rough"), good=camera("/good"))
    assert listener.advice("rough").startswith("no image with best_effort, which loses an image with any of its")
    image = SimpleNamespace(data=bytes(2_100_000))
    for _, receive in laboratory.made.values():
        receive(image)
    clock.sleep_until_ns(clock.now_ns() + 5_000_000_000)
    said = listener.advice("rough")
    assert said.startswith("1 image(s) of 2.1 MB in 5 s with best_effort") and "sources.rough.reliability=auto" in said
    assert listener.advice("good") == "1 image(s) of 2.1 MB in 5 s, reliable"

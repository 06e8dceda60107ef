"""A virtual robot in a process of its own, and the driver that the tests drive it with over real DDS."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hydra import compose, initialize_config_module

from robo_rl.app import build, register_all_configs
from robo_rl.core import Observation, SafetyStop, Step
from robo_rl.drivers.ros2.dds.endpoints import DdsRepeater
from robo_rl.drivers.ros2.message_types import RosbagsTypes

from .command_line import Forked
from .ros2_rig import wait_until as wait_until

GROUPS = ("task=", "robot=")
PATIENCE = tuple(
    f"robot.sources.{name}.max_age=1" for name in ("joints", "pose", "twist", "wrench", "gripper", "object", "rewards")
)
"""What the virtual arm says may come late: it shares a busy machine with the tests."""


@contextmanager
def virtual_robot(environment: dict[str, str], *options: str) -> Iterator[Forked]:
    """Run ``robo-rl robot`` and end it after the block, also where it was stopped by a signal."""
    process = Forked("robot", "task=reach", *options, errors=False, environment=environment)
    try:
        assert "Ctrl-C ends it" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def composed(*options: str) -> Any:
    """Return the configuration of ``robo-rl train task=reach robot=virtual`` with further options."""
    register_all_configs()
    groups = {"task": "reach", "robot": "virtual"} | dict(
        word.split("=") for word in options if word.startswith(GROUPS)
    )
    rest = [word for word in options if not word.startswith(GROUPS)]
    words = [f"{group}={choice}" for group, choice in groups.items()]
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        return compose("train", overrides=[*words, "robot.start_timeout=60", *rest])


class Heard(NamedTuple):
    """A subscription of a :class:`Recorder`."""

    topic: str
    matched_count: int = 1


class Recorder:
    """A node that keeps what is published."""

    name = "recorder"

    def __init__(self) -> None:
        self.types = RosbagsTypes()
        self.published: dict[str, list[Any]] = {}
        self.taking: dict[str, Any] = {}
        self.timers: list[Any] = []

    def create_timer(self, period, callback):
        self.timers.append(callback)

    def create_publisher(self, kind, topic, qos):
        messages = self.published.setdefault(topic, [])

        def publish(message):
            assert type(message) is self.types[kind]
            messages.append(message)

        def send(data):
            publish(self.types.deserialize(kind, memoryview(bytearray(data))))

        def repeater(message):
            data, places = self.types.serialize(kind, message), self.types.places(kind, message)
            return DdsRepeater(SimpleNamespace(topic=topic, send=send), data, places)

        return SimpleNamespace(
            publish=publish, repeater=repeater, topic=topic, matched_count=1, wait_for_all_acked=lambda _: True
        )

    def create_subscription(self, kind, topic, callback, qos):
        self.taking[topic] = callback
        return Heard(topic)

    def create_action_server(self, kind, name, execute):
        self.taking[name] = execute

    def create_service(self, kind, name, answer):
        self.taking[name] = answer

    def now(self):
        return self.types.make("builtin_interfaces/msg/Time", sec=1, nanosec=2)

    def close(self): ...


def driver(config: Any) -> Any:
    """Return the driver alone, without safety around it."""
    return build(config.robot, simulation=build(config.task))


def patient_driver(*options: str) -> Any:
    """Return the driver of a virtual arm that runs, for which the machine has not always time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("robo_rl.drivers.robot.agreement.SKEW", 1.0)  # joints and pose come as late as they may be old
        return driver(composed(*PATIENCE, *options))


def towards_goal(observation: Observation) -> np.ndarray:
    """Return the action that leads towards the goal of ``reach``, by what is observed alone."""
    action: np.ndarray = np.clip(observation["object"][:3] / 0.05, -1, 1).astype(np.float32)
    return action


def begin(backend: Any, attempts: int = 5) -> Step:
    """Begin an episode, also on a machine that is too busy at first."""
    for attempt in range(attempts):
        try:
            step: Step = backend.reset(0)
            return step
        except SafetyStop:
            if attempt == attempts - 1:
                raise
    raise AssertionError


def largest(values: Sequence[float]) -> float:
    """Return the largest magnitude."""
    return max(map(abs, values))

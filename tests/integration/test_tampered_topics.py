"""A node between a robot and its driver that publishes joints and wrenches as some robots do."""

import math
import random
import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from robo_rl.core import RoboRLError
from robo_rl.drivers.ros2 import Node, QoSProfile, open_node

from ..rigs.robot_rig import begin, patient_driver, virtual_robot
from ..rigs.ros2_domain import free_domain

JOINTS, WRENCH = "sensor_msgs/msg/JointState", "geometry_msgs/msg/WrenchStamped"
SENSOR = "force_torque_sensor_broadcaster/wrench"
QOS = QoSProfile(depth=10)
BIAS = (15.4, 0.1, 235.0)
"""Force that the wrist's sensor measures too much [N]."""
SOURCES = ("robot.sources.joints.topic=tampered", "robot.sources.wrench.topic=tampered_wrench")
WINDOW = "robot.sources.joints.velocity_window=0.05"


class Tamperer:
    """A node that republishes joint states and wrenches, changed in the way of ``kind``."""

    def __init__(self, node: Node) -> None:
        self.kind, self._node, self._count = "", node, 0
        self._joints = node.create_publisher(JOINTS, "tampered", QOS)
        self._wrench = node.create_publisher(WRENCH, "tampered_wrench", QOS)
        node.create_subscription(JOINTS, "joint_states", self._tamper_with_joints, QOS)
        node.create_subscription(WRENCH, SENSOR, self._tamper_with_wrench, QOS)

    def _tamper_with_joints(self, message: Any) -> None:
        self._count += 1
        count = len(message.name)
        order = list(range(count))
        names, positions, velocities = list(message.name), np.array(message.position), np.array(message.velocity)
        efforts, stamp = np.zeros(count), {"sec": message.header.stamp.sec, "nanosec": message.header.stamp.nanosec}
        if self.kind == "in another order":
            random.Random(self._count // 50).shuffle(order)
            efforts[:] = math.nan
        elif self.kind == "velocities are nan":
            velocities[:] = math.nan
        elif self.kind == "no velocities":
            velocities = np.empty(0)
        elif self.kind == "no stamps":
            stamp = {"sec": 0, "nanosec": 0}
        elif self.kind == "a clock that is put back":
            stamp["sec"] -= 3600 * (self._count // 50 % 2)
        self._publish(
            stamp,
            [names[i] for i in order],
            positions[order],
            velocities[order] if velocities.size else velocities,
            efforts,
        )
        if self.kind == "in turn with another gripper":
            self._publish(stamp, ["other_gripper"], np.array([0.1]), np.zeros(1), np.zeros(1))

    def _publish(self, stamp: dict[str, int], names: list[str], *values: np.ndarray) -> None:
        parts = dict(zip(("position", "velocity", "effort"), values, strict=True))
        self._joints.publish(self._node.types.make(JOINTS, header={"stamp": stamp}, name=names, **parts))

    def _tamper_with_wrench(self, message: Any) -> None:
        if self.kind == "a biased sensor":
            force = message.wrench.force
            force.x, force.y, force.z = force.x + BIAS[0], force.y + BIAS[1], force.z + BIAS[2]
        self._wrench.publish(message)


@pytest.fixture(scope="module")
def tamperer() -> Iterator[Tamperer]:
    with free_domain() as domain, virtual_robot(domain), pytest.MonkeyPatch.context() as monkeypatch:
        for key, value in domain.items():
            monkeypatch.setenv(key, value)
        with open_node("tamper", implementation="dds") as node:
            yield Tamperer(node)


def driven(*options: str) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the states of a short motion by elements, and the names of the arm's joints."""
    backend = patient_driver(*SOURCES, *options)
    try:
        states = [begin(backend).observation["state"]]
        action = np.zeros(backend.spec.action.shape, np.float32)
        action[0] = 0.4
        states += [backend.step(action).observation["state"] for _ in range(6)]
        names = backend.spec.observation["state"].names
        return dict(zip(names, np.stack(states, axis=1), strict=True)), list(backend.robot.joints)
    finally:
        backend.close()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("", ()),
        ("in another order", ()),
        ("in turn with another gripper", ()),
        ("no stamps", ()),
        ("a clock that is put back", ()),
        ("velocities are nan", (WINDOW,)),
        ("no velocities", (WINDOW,)),
    ],
)
def test_joints_are_observed_whatever_lies_around_them(tamperer: Tamperer, kind: str, options: tuple[str, ...]) -> None:
    tamperer.kind = kind
    state, joints = driven(*options)
    moved = state["end_effector_x"][-1] - state["end_effector_x"][0]
    assert 0.01 < moved < 0.2
    for joint in joints:
        assert np.abs(np.diff(state[f"{joint}_position"])).max() < 0.1, "no joint takes another's place"
    fastest = max(np.abs(state[f"{joint}_velocity"]).max() for joint in joints)
    assert 0.02 < fastest < 3


@pytest.mark.parametrize("kind", ["velocities are nan", "no velocities"])
def test_velocities_that_are_not_measured_are_refused_with_advice(tamperer: Tamperer, kind: str) -> None:
    tamperer.kind = kind
    with pytest.raises(RoboRLError, match="velocity_window"):
        driven()


def test_a_biased_sensor_is_reported_and_tared_where_that_is_chosen(
    tamperer: Tamperer, capsys: pytest.CaptureFixture[str]
) -> None:
    tamperer.kind = "a biased sensor"
    time.sleep(0.5)
    state, _ = driven()
    assert np.abs(state["wrist_force_z"]).min() > 200
    assert re.search(r"measures 23\d N at its wrist at rest\. .*robot\.tare\.seconds", capsys.readouterr().out)
    with pytest.raises(RoboRLError, match="which is no bias: at most 50 N"):
        driven("robot.tare.seconds=0.2")
    state, _ = driven("robot.tare.seconds=0.2", "robot.tare.force=300")
    assert np.abs(state["wrist_force_z"]).max() < 20

"""Teleoperation over ROS 2: devices and steering services of other processes, over DDS on loopback."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ConfigError, EnvSpec, Intervention, ManualClock
from robo_rl.drivers.ros2 import Node, open_node
from robo_rl.drivers.teleop import TeleopConfig, make_steering, make_teleop
from robo_rl.drivers.teleop.config import LeaderConfig, TwistConfig
from robo_rl.drivers.teleop.motion import AxisMotion, AxisTeleop
from robo_rl.drivers.teleop.topics import JoyReader

from ..rigs.ros2_domain import free_domain
from ..rigs.ros2_rig import wait_until
from ..rigs.specs import steered_spec

DEVICES = """
import sys, time
import numpy as np
from robo_rl.drivers.ros2 import open_node
with open_node("devices", implementation="dds") as node:
    make = node.types.make
    joy = node.create_publisher("sensor_msgs/msg/Joy", "joy")
    twist = node.create_publisher("geometry_msgs/msg/Twist", "cmd_vel")
    joints = node.create_publisher("sensor_msgs/msg/JointState", "leader/joint_states")
    print("ready", flush=True)
    for line in sys.stdin:
        kind, _, rest = line.partition(" ")
        numbers = [float(word) for word in rest.split()]
        if kind == "joy":
            buttons = [int(number) for number in numbers[5:]]
            joy.publish(make("sensor_msgs/msg/Joy", axes=numbers[:5], buttons=buttons))
        elif kind == "twist":
            x, y, z, turn = numbers
            twist.publish(make("geometry_msgs/msg/Twist", linear={"x": x, "y": y, "z": z}, angular={"z": turn}))
        else:
            names = ["b", "grip", "a"][: len(numbers)] if kind == "joints" else kind.split(",")
            joints.publish(make("sensor_msgs/msg/JointState", name=names, position=numbers))
"""


def make_spec(*names: str, space: str = "end_effector_delta") -> EnvSpec:
    scales = {"joint_scale": 0.1} if space == "joint_delta" else {"translation_scale": 0.05, "rotation_scale": 0.2}
    return steered_spec(names, action_space=space, extra=scales)


PLANAR = """<mujoco><compiler angle="radian"/><worldbody><body><joint name="a" axis="0 0 1"/><geom size="0.01"/>
<body pos="0.3 0 0"><joint name="b" axis="0 0 1"/><geom size="0.01"/><site name="tip" pos="0.2 0 0"/></body></body>
</worldbody></mujoco>"""
ARM = make_spec("x", "y", "z", "yaw", "gripper")
JOINTS = make_spec("a", "b", "gripper", space="joint_delta")


@pytest.fixture(scope="module")
def say() -> Iterator[Callable[..., None]]:
    """A process that publishes what it is told to."""
    with free_domain() as environment, pytest.MonkeyPatch.context() as monkeypatch:
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        process = subprocess.Popen(
            [sys.executable, "-c", DEVICES],
            env=dict(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"

            def publish(kind: str, *numbers: float) -> None:
                assert process.stdin is not None
                print(kind, *numbers, file=process.stdin, flush=True)

            yield publish
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            finally:
                process.kill()


def reads(device: Any, send: Callable[[], None], until: Callable[[Intervention], bool]) -> Intervention:
    """Send again and again, as devices do, until what is read is as wanted."""
    reading: Intervention = device.read()

    def read() -> bool:
        nonlocal reading
        send()
        reading = device.read()
        return until(reading)

    wait_until(read, 60)
    return reading


def test_joy(say: Callable[..., None]) -> None:
    device = make_teleop("joy", ARM, screen=None, implementation="dds")
    try:
        assert device.read().message == "no sensor_msgs/msg/Joy on /joy: nothing moves until it is there"
        buttons = [0.0] * 8
        rest = reads(device, lambda: say("joy", 0, 0, 0, 0, 0, *buttons), lambda reading: not reading.message)
        assert not rest.in_control
        reading = reads(device, lambda: say("joy", -1, 0.55, 0, 0, 1, *buttons), lambda reading: reading.in_control)
        np.testing.assert_allclose(reading.action, [0.5, -1, 1, 0, -1], atol=1e-4)
        buttons[0] = buttons[5] = 1
        reading = reads(device, lambda: say("joy", 0, 0, 0, 0, 0, *buttons), lambda reading: bool(reading.buttons))
        assert reading.buttons == {"success"} and reading.action[4] == 1
        # Silence is an unplugged device: no motion, and a latch later nobody has control.
        gone = reads(device, lambda: None, lambda reading: bool(reading.message))
        assert not gone.action[:4].any()
        assert not reads(device, lambda: None, lambda reading: not reading.in_control).in_control
    finally:
        device.close()


def test_a_short_press_of_joy_between_two_looks_counts_once_and_an_emergency_stop_though_it_fell_silent() -> None:
    hear: list[Any] = []
    newest: list[Any] = []

    def subscribe(kind: str, name: str, callback: Any, qos: Any) -> Any:
        hear.append(callback)
        return SimpleNamespace(topic=name, latest=lambda: newest[-1])

    def say(*held: int) -> None:
        message = SimpleNamespace(axes=[0.0] * 5, buttons=[number in held for number in range(8)])
        newest.append((message, clock.now_ns()))
        hear[0](message)

    config, clock = TeleopConfig(), ManualClock()
    node: Any = SimpleNamespace(create_subscription=subscribe, problems=())
    motion = AxisMotion(ARM, config.joy, config.latch_seconds, clock)
    device = AxisTeleop(JoyReader(node, config.joy, clock), motion)
    say(0)
    assert not device.read().buttons, "held at the start"
    say()
    say(3)
    say()
    assert device.read().buttons == {"emergency_stop"} and not device.read().buttons
    say(0)
    assert device.read().buttons == {"success"} and not device.read().buttons
    say(0, 1, 3)
    clock.advance_ns(10**10)
    reading = device.read()
    assert reading.buttons == {"emergency_stop"} and reading.message
    say(0, 2)
    assert not device.read().buttons, "held when it is back"


def test_twist(say: Callable[..., None]) -> None:
    device = make_teleop("twist", ARM, screen=None, implementation="dds")
    try:
        # Full actions are 0.5 m/s and 2 rad/s: 0.05 m and 0.2 rad in a period of 0.1 s.
        reading = reads(device, lambda: say("twist", 0.25, -0.5, 0, 1), lambda reading: reading.in_control)
        np.testing.assert_allclose(reading.action, [0.5, -1, 0, 0.5, -1], atol=1e-6)
        device.reset(closed=True)
        fast = reads(device, lambda: say("twist", 2, -1, 0, 0), lambda reading: reading.action[1] == -0.5)
        np.testing.assert_allclose(fast.action, [1, -0.5, 0, 0, 1], atol=1e-6)
        not_a_number = reads(
            device, lambda: say("twist", np.nan, 0, 0, 0), lambda reading: not reading.action[:4].any()
        )
        assert not reads(device, lambda: say("twist", np.nan, 0, 0, 0), lambda reading: not reading.in_control).message
        assert not_a_number.action[4] == 1
    finally:
        device.close()


def test_a_vehicle_by_twist(say: Callable[..., None]) -> None:
    twist = TwistConfig(speed=2.0, turn=0.5)
    device = make_teleop("twist", make_spec("steering", "throttle"), screen=None, twist=twist, implementation="dds")
    try:
        reading = reads(device, lambda: say("twist", 1, 0, 0, -0.25), lambda reading: reading.in_control)
        np.testing.assert_allclose(reading.action, [-0.5, 0.5], atol=1e-6)
    finally:
        device.close()


def test_a_leader_arm(say: Callable[..., None]) -> None:
    """Its motion is made, all of it, however fast it was; its gripper is followed by position."""
    leader = LeaderConfig(joints=("a", "b"), scale=(1.0, -1.0), gripper="grip", closed=1.0, open=0.0)
    device = make_teleop("leader", JOINTS, screen=None, leader=leader, latch_seconds=5.0, implementation="dds")
    try:
        reads(device, lambda: say("joints", 0.2, 0, 0.5), lambda reading: not reading.message)
        moved = np.zeros(2)
        largest = 0.0

        def enough(reading: Intervention) -> bool:
            nonlocal moved, largest
            moved = moved + 0.1 * reading.action[:2]
            largest = max(largest, float(np.abs(reading.action[:2]).max()))
            return bool(np.allclose(moved, [0.35, -0.12], atol=1e-3) and reading.action[2] == 0)

        reading = reads(device, lambda: say("joints", 0.32, 0.5, 0.85), enough)
        assert reading.in_control and largest <= 1
        missing = reads(device, lambda: say("joints", 0.32), lambda reading: bool(reading.message))
        assert missing.message == "the leader arm gives no position of a, but of b"
        assert not missing.action[:2].any()
    finally:
        device.close()


@pytest.mark.parametrize(
    "others",
    [
        {"finger": [0.3]},
        {"finger,finger": [0.3, 0.3]},
        {"left/a,left/b,left/grip": [9, 9, 9]},
        {"finger,wheel": [1]},
        {"finger": [float("nan")]},
        {"grip": [0.25]},
    ],
    ids=["a gripper", "a name twice", "another arm", "too few values", "no number", "its own gripper"],
)
def test_a_leader_shares_its_topic(say: Callable[..., None], others: dict[str, list[float]]) -> None:
    """Messages that name none of its joints take nothing of its motion away, and its gripper may come apart."""
    leader = LeaderConfig(joints=("a", "b"), gripper="grip", closed=1.0, open=0.0, timeout=60.0)
    device = make_teleop("leader", JOINTS, screen=None, leader=leader, latch_seconds=60.0, implementation="dds")

    def send(angle: float) -> None:
        say("a,b", angle, 0)
        say("grip", 0.25)
        for names, values in others.items():
            say(names, *values)

    try:
        reads(device, lambda: send(0), lambda reading: not reading.message)
        moved = 0.0

        def enough(reading: Intervention) -> bool:
            nonlocal moved
            assert not reading.message
            moved += 0.1 * float(reading.action[0])
            return moved == pytest.approx(0.35, abs=1e-3) and reading.action[2] == pytest.approx(-0.5)

        reads(device, lambda: send(0.35), enough)
    finally:
        device.close()


def test_a_leader_arm_of_its_own_kinematics(say: Callable[..., None], tmp_path: Path) -> None:
    """Two links in a plane: x and y by the law of cosines, and the yaw is the sum of the angles."""
    model = tmp_path / "leader.xml"
    model.write_text(PLANAR)
    leader = LeaderConfig(
        model=str(model), joints=("a", "b"), end_effector="tip", translation=2.0, gripper="grip", closed=1.0, open=0.0
    )
    device = make_teleop("leader", ARM, screen=None, leader=leader, latch_seconds=5.0, implementation="dds")

    def tip(a: float, b: float) -> np.ndarray:
        return np.array([0.3 * np.cos(a) + 0.2 * np.cos(a + b), 0.3 * np.sin(a) + 0.2 * np.sin(a + b), 0.0, a + b])

    try:
        reads(device, lambda: say("joints", -0.4, 0, 0.5), lambda reading: not reading.message)
        wanted = (tip(0.9, 0.3) - tip(0.5, -0.4)) * (2, 2, 2, 1)
        moved = np.zeros(4)

        def enough(reading: Intervention) -> bool:
            nonlocal moved
            assert np.abs(reading.action[:4]).max() <= 1
            moved = moved + reading.action[:4] * (0.05, 0.05, 0.05, 0.2)
            return bool(np.allclose(moved, wanted, atol=1e-5))

        reading = reads(device, lambda: say("joints", 0.3, 1, 0.9), enough)
        assert reading.in_control and reading.action[4] == 1
    finally:
        device.close()


def test_actions_that_a_device_cannot_drive() -> None:
    positions = make_spec("a", "b", space="joint_position")
    with pytest.raises(ConfigError, match=r"a leader arm drives joints.*joint_delta or end_effector_delta"):
        make_teleop("leader", positions, screen=None)
    with pytest.raises(ConfigError, match=r"teleop\.leader\.joints must be one for each of a, b, got 3 of them"):
        make_teleop("leader", JOINTS, screen=None, leader=LeaderConfig(joints=("a", "b", "c")))
    with pytest.raises(ConfigError, match="the action of task 'test' has elements a, b, gripper"):
        make_teleop("twist", JOINTS, screen=None)


def trigger(node: Node, name: str) -> tuple[bool, str]:
    kind = "std_srvs/srv/Trigger"
    answer = node.create_client(kind, f"robo_rl/{name}").call(node.types.make(f"{kind}_Request"), 30.0)
    return answer.success, answer.message


def test_steering_by_services(say: Callable[..., None]) -> None:
    answers = ["/stop CANNOT BE WRITTEN", ""]
    steering = make_steering(lambda: answers.pop(0), implementation="dds")
    try:
        with open_node("operator", implementation="dds") as node:
            heard: list[Any] = []
            node.create_subscription("diagnostic_msgs/msg/DiagnosticArray", "diagnostics", heard.append)
            assert trigger(node, "start") == (False, "it is not paused")
            assert trigger(node, "pause") == (True, "it pauses after this step")
            assert trigger(node, "pause") == (False, "it is paused already")
            assert trigger(node, "start") == (True, "it goes on")
            assert steering.take_buttons() == set(), "taken back before anybody looked"
            steering.report("stopped: emergency stop (a person); robo-rl rearm (paused)", True, True, {})
            goes_on, answer = trigger(node, "start")
            assert goes_on and answer.startswith("the pause ends, but the robot does not move; stopped: emergency stop")
            steering.take_buttons()
            assert trigger(node, "start")[1].startswith("it is not paused, but it does not move; stopped: emergency")
            steering.report("the policy has control", False, False, {})
            assert trigger(node, "emergency_stop") == (False, "/stop CANNOT BE WRITTEN")
            for name in ("pause", "reset", "mark_success", "mark_failure", "emergency_stop"):
                assert trigger(node, name)[0]
            assert not answers, "at once"
            assert steering.take_buttons() == {"pause", "discard", "success", "failure", "emergency_stop"}
            assert trigger(node, "pause")[0] is False
            for state, paused, alarm, level in (
                ("the policy has control", False, False, 0),
                ("paused", True, False, 1),
                ("stopped: emergency stop", False, True, 2),
            ):
                heard.clear()

                def is_said(state: str = state, paused: bool = paused, alarm: bool = alarm) -> bool:
                    steering.report(state, paused, alarm, {"steps": "12"})
                    return any(message.status[0].message == state for message in heard)

                wait_until(is_said, 30)
                status = heard[-1].status[0]
                assert (status.level, status.name) == (level, "/robo_rl: control loop")
                values = {each.key: each.value for each in status.values}
                assert values == {"lifecycle": "inactive" if level else "active", "steps": "12"}
            wait_until(lambda: "its control loop stands still" in heard[-1].status[0].message, 30)
            assert heard[-1].status[0].level == 2
    finally:
        steering.close()

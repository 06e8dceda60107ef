"""What can go wrong with a robot over ROS 2, against the virtual robot in a process of its own and real DDS.

Fault cases 1 (silent), 2 (stale), 3 (NaN), 5 (frozen camera), 6 (intermittent), 9 (overrun) and 10 (emergency stop), a
missing topic and a watchdog that has stopped the robot.
"""

import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from robo_rl.core import DriverError, SafetyStop
from robo_rl.drivers.ros2 import Node, open_node
from robo_rl.safety import make_safe_backend

from ..rigs.picture_stream import PictureStream, picture
from ..rigs.robot_rig import begin, largest, patient_driver, towards_goal, virtual_robot, wait_until

PATIENT = ("virtual.watchdog.hold_after=1", "virtual.watchdog.stop_after=5")
STILL = np.zeros(3, np.float32)
UP = np.array([0, 0, 1], np.float32)


class Bystander:
    """Another node in the domain: sees what the robot does, and calls its services."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._joints = node.create_subscription("sensor_msgs/msg/JointState", "joint_states")
        self._diagnostics = node.create_subscription("diagnostic_msgs/msg/DiagnosticArray", "diagnostics")

    def speed(self) -> float:
        wait_until(self._joints.latest)
        message, _ = self._joints.latest()
        return largest(message.velocity)

    def call(self, service: str) -> Any:
        client = self._node.create_client("std_srvs/srv/Trigger", service)
        assert client.wait(20.0)
        return client.call(self._node.types.make("std_srvs/srv/Trigger_Request"), 20.0)

    def diagnosis(self) -> tuple[str, dict[str, str]]:
        """Return message and values; the message may be that this machine is too slow."""
        wait_until(self._diagnostics.latest)
        status = self._diagnostics.latest()[0].status[0]
        return status.message, {value.key: value.value for value in status.values}


@pytest.fixture
def bystander(domain) -> Iterator[Bystander]:
    with open_node("bystander") as node:
        yield Bystander(node)


def safe(inner: Any, **observations: Any) -> Any:
    from robo_rl.safety.config import ObservationsConfig

    return make_safe_backend(inner, observations=ObservationsConfig(**observations))


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_robot_that_falls_silent_ends_the_episode_without_a_made_up_step(domain, number, capsys):
    inner = patient_driver("robot.reset.timeout=2", "robot.reset.attempts=1")
    with virtual_robot(domain, *PATIENT) as robot:
        try:
            backend = safe(inner)
            begin(backend)
            backend.step(UP)
            robot.send_signal(number)
            began = time.monotonic()
            with pytest.raises(SafetyStop, match=r"fallen silent: .* is \d\.\d+ s old \(1 s are") as caught:
                for _ in range(20):
                    backend.step(UP)
            assert caught.value.reason == "driver_silent"
            seconds = time.monotonic() - began
            with capsys.disabled():
                print(f" noticed {1000 * seconds:.0f} ms after {number.name}")
            assert seconds < 3.0
            with pytest.raises(RuntimeError, match="call reset"):
                backend.step(UP)
            for _ in range(2):
                with pytest.raises(SafetyStop, match="has not answered: it may still be running") as caught:
                    backend.reset(0)
                assert caught.value.reason in ("reset_unanswered", "robot_away")
        finally:
            inner.close()


def test_a_short_silence_ends_the_episode_and_another_begins(domain):
    inner = patient_driver("robot.silence=20")
    with virtual_robot(domain, *PATIENT) as robot:
        try:
            for _ in range(2):
                begin(inner)
                robot.send_signal(signal.SIGSTOP)
                with pytest.raises(SafetyStop, match="fallen silent"):
                    for _ in range(20):
                        inner.step(UP)
                robot.send_signal(signal.SIGCONT)
            begin(inner)
            assert not inner.step(UP).ended
        finally:
            inner.close()


def test_when_commands_stop_the_robot_holds_then_stops_and_the_driver_is_told(domain, bystander):
    inner = patient_driver()
    with virtual_robot(domain, "virtual.watchdog.hold_after=1", "virtual.watchdog.stop_after=2"):
        try:
            begin(inner)
            inner.step(UP)
            assert bystander.speed() > 0.05
            wait_until(lambda: bystander.speed() < 0.02)
            # Not what was said before the first reset: it was stopped then, too.
            wait_until(lambda: bystander.diagnosis()[1]["episode"] != "-1")
            wait_until(lambda: bystander.diagnosis()[1]["watchdog"] == "stopped")
            with pytest.raises(SafetyStop, match="does not obey commands any more") as caught:
                for _ in range(20):
                    inner.step(UP)
            assert caught.value.reason == "robot_stopped"
            # On a busy machine it may still settle, slower than it would move if it obeyed.
            assert bystander.speed() < 0.05, "commands do not revive it"
            begin(inner)
            inner.step(UP)
        finally:
            inner.close()


def test_an_emergency_stop_at_the_robot_is_latched_until_it_is_rearmed(domain, bystander):
    inner = patient_driver("robot.reset.attempts=1")
    with virtual_robot(domain, *PATIENT):
        try:
            begin(inner)
            inner.step(UP)
            assert bystander.call("emergency_stop").success
            with pytest.raises(SafetyStop, match="does not obey commands any more") as caught:
                for _ in range(20):
                    inner.step(UP)
            assert caught.value.reason == "robot_stopped"
            wait_until(lambda: bystander.speed() < 0.02)
            wait_until(lambda: bystander.diagnosis()[0] == "the emergency stop is pressed")
            for _ in range(2):
                with pytest.raises(SafetyStop, match="the emergency stop is pressed; rearm takes it back"):
                    inner.reset(0)
            assert bystander.call("rearm").success
            begin(inner)
            inner.step(UP)
        finally:
            inner.close()


def test_the_emergency_stop_of_this_user_stops_the_robot_before_the_next_command(domain, bystander):
    from robo_rl.core import EmergencyStop

    inner = patient_driver()
    with virtual_robot(domain, *PATIENT):
        try:
            backend = safe(inner)
            begin(backend)
            backend.step(UP)
            EmergencyStop().press("a test")
            try:
                with pytest.raises(SafetyStop, match="a test") as caught:
                    backend.step(UP)
                assert caught.value.reason == "emergency_stop"
                wait_until(lambda: bystander.speed() < 0.02)
                with pytest.raises(SafetyStop):
                    backend.reset(0)
            finally:
                EmergencyStop().rearm()
        finally:
            inner.close()


def test_what_is_missing_is_named(domain):
    with virtual_robot(domain):
        for options, message in (
            (("task.observation.cameras=[front]",), r"nobody publishes /front/image_raw \(sensor_msgs/msg/Image\)\."),
            (
                ("robot.sources.wrench.topic=wrench",),
                r"nobody publishes /wrench .*: published .* are /force_torque_sensor_broadcaster/wrench\.",
            ),
            (
                ("robot.sources.gripper.names=[jaw]",),
                r"/joint_states gives none of jaw, but joint1, .*finger_joint2\.",
            ),
            (("robot.command.topic=servo",), r"nobody listens to /servo: topics of this type are /\w+"),
            (("robot.reset.service=home",), r"no service home \(std_srvs/srv/Trigger\)\."),
        ):
            inner = patient_driver("robot.start_timeout=3", *options)
            try:
                with pytest.raises(DriverError, match=r"is not all there after 3 s: .*" + message):
                    inner.reset(0)
            finally:
                inner.close()


@pytest.mark.rendering
def test_a_frozen_camera_is_a_fault(domain):
    """Pictures of an arm at rest without noise are equal, under new stamps."""
    camera = ("task.observation.cameras=[front]", "task.observation.width=32", "task.observation.height=24")
    inner = patient_driver(*camera, "robot.sources.front.max_age=2")
    with virtual_robot(domain, *camera, *PATIENT, "virtual.camera_noise=0"):
        try:
            backend = safe(inner, frozen_images=4)
            assert begin(backend).observation["images/front"].shape == (24, 32, 3)
            with pytest.raises(SafetyStop, match="images/front: 4 pictures in a row are equal") as caught:
                for _ in range(24):
                    backend.step(STILL)
            assert caught.value.reason == "camera_frozen"
        finally:
            inner.close()


def test_a_camera_without_ros_that_goes_away_ends_the_episode_and_comes_back(domain):
    stream = PictureStream()
    options = (
        *("task.observation.cameras=[front]", "task.observation.width=32", "task.observation.height=24"),
        *("robot.sources.front.topic=''", "robot.sources.front.type=''", "robot.sources.front.max_age=1"),
        f"robot.sources.front.camera.device={stream.url}",
    )
    stream.stop()
    missing = patient_driver(*options, "robot.start_timeout=3")
    inner = patient_driver(*options)
    name = rf"camera front \({stream.url}\)"
    with virtual_robot(domain, *PATIENT):
        try:
            with pytest.raises(DriverError, match=rf"not all there after 3 s: {name}: {stream.url} cannot be reached"):
                missing.reset(0)
            stream.start()
            backend = safe(inner)
            image = begin(backend).observation["images/front"]
            np.testing.assert_allclose(image[:, :14, 0], picture()[0, 0, 0], atol=12)
            assert not np.array_equal(backend.step(UP).observation["images/front"], image)
            watch = inner.watch()  # as of a guard in another process, which could not open a device that the driver has
            try:
                wait_until(lambda: watch.look().observation is not None)
                assert watch.look().observation.keys() == watch.spec.observation.keys() == {"state", "object"}
            finally:
                watch.close()
            stream.stop()
            with pytest.raises(SafetyStop, match=rf"silent: {name} is \d\.\d+ s old \(1 s are allowed, ") as caught:
                for _ in range(40):
                    backend.step(STILL)
            assert caught.value.reason == "driver_silent"
            stream.start()
            begin(backend)
            backend.step(UP)
        finally:
            missing.close()
            inner.close()
            stream.stop()


def test_a_policy_that_is_too_slow_stops_the_robot(domain):
    inner = patient_driver("robot.overruns=3")
    with virtual_robot(domain, *PATIENT):
        try:
            begin(inner)
            with pytest.raises(SafetyStop, match=r"3 control periods in a row began .* too slow for 10 Hz") as caught:
                for _ in range(10):
                    inner.step(STILL)
                    time.sleep(0.12)
            assert caught.value.reason == "overrun"
            assert inner.rate.overruns >= 3
        finally:
            inner.close()


def test_what_is_not_finite_is_never_obeyed_nor_stored(domain):
    """A node beside the robot publishes nonsense on the robot's own topics."""
    inner = patient_driver()
    with virtual_robot(domain, *PATIENT), open_node("liar") as liar:
        try:
            begin(inner)
            make = liar.types.make
            commands = liar.create_publisher(
                "geometry_msgs/msg/PoseStamped", "cartesian_impedance_controller/equilibrium_pose"
            )
            twists = liar.create_publisher("geometry_msgs/msg/TwistStamped", "cartesian_pose_broadcaster/twist")
            wait_until(lambda: commands.matched_count and twists.matched_count)
            nowhere = {"position": {"x": float("nan")}, "orientation": {"w": 1.0}}
            commands.publish(make("geometry_msgs/msg/PoseStamped", pose=nowhere))
            for _ in range(3):
                assert np.isfinite(inner.step(UP).observation["state"]).all()
            twist = make("geometry_msgs/msg/TwistStamped", twist={"linear": {"x": float("nan")}})

            def lie() -> None:
                twist.header.stamp.nanosec += 1
                twists.publish(twist)

            liar.create_timer(0.0005, lie)  # more often than the robot tells the truth
            with pytest.raises(SafetyStop, match=r"twist: expected finite values, got \[nan") as caught:
                for _ in range(20):
                    inner.step(UP)
            assert caught.value.reason == "observation_invalid"
        finally:
            inner.close()


def test_the_scripted_way_to_the_goal_works_through_ros_2(domain, capsys):
    inner = patient_driver()
    with virtual_robot(domain, *PATIENT):
        try:
            backend = safe(inner)
            successes = []
            for _ in range(5):
                step = begin(backend)
                assert step.rewards == {"success": 0.0, "near": 0.0}
                while not step.ended:
                    step = backend.step(towards_goal(step.observation))
                successes.append(step.success)
                assert step.terminated == step.success
            with capsys.disabled():
                print(f" {inner.rate}")
            assert sum(map(bool, successes)) == 5
        finally:
            inner.close()

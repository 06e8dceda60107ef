"""robot=ackermann: the virtual car in a process of its own, driven over real DDS on loopback."""

import time

import numpy as np
import pytest

from robo_rl.core import BaseTarget, ConfigError, SafetyStop
from robo_rl.drivers.ros2 import open_node
from robo_rl.sim import make_backend

from ..rigs.robot_rig import begin, composed, driver, virtual_robot, wait_until

OPTIONS = ("task=drive", "task.autonomous=false", "task.max_episode_steps=400")
AGES = ("robot.sources.odometry.max_age=5", "robot.sources.imu.max_age=5", "robot.sources.orientation.max_age=5",
        "robot.sources.drive.max_age=5", "robot.sources.object.max_age=5", "robot.sources.rewards.max_age=5",
        "robot.command.timeout=1", "robot.overruns=1000")  # fmt: skip


def towards_checkpoint(observation):
    """Return the action that steers for the second checkpoint ahead, by what is observed alone."""
    x, y = observation["object"][2:4]
    speed = observation["state"][6]
    return np.clip([2.0 * np.arctan2(y, x), 0.3 + 0.5 * (1.0 - speed)], -1, 1).astype(np.float32)


@pytest.mark.parametrize("command", [(), ("robot.command.kind=base_twist", "robot.command.topic=cmd_vel")])
def test_a_car_is_driven_over_ros(domain, command):
    with virtual_robot(domain, *OPTIONS, "virtual.watchdog.hold_after=1", "virtual.watchdog.stop_after=20"):
        backend = driver(composed("robot=ackermann", *OPTIONS, *AGES, *command))
        try:
            assert backend.robot is None
            step = begin(backend)
            assert not step.ended and step.success is False
            backend.spec.check_observation(step.observation)
            assert step.observation["state"][2] == pytest.approx(1, abs=0.1), "it feels gravity, in g"
            assert step.observation["state"][12] == pytest.approx(1, abs=0.01), "it stands upright"
            progress, speeds = 0.0, []
            for _ in range(100):
                step = backend.step(towards_checkpoint(step.observation))
                progress += step.rewards["progress"]
                speeds.append(step.observation["state"][6])
                if step.ended:
                    break
            assert step.rewards["crashed"] == 0
            assert max(speeds) > 0.5, "it drives, forward"
            assert progress > 1, "towards the checkpoints"
            assert len(speeds) == 100
        finally:
            backend.close()


def test_a_crash_ends_the_episode_and_silence_stops_the_car(domain):
    with (
        virtual_robot(domain, *OPTIONS, "virtual.watchdog.hold_after=0.5", "virtual.watchdog.stop_after=1.5") as car,
        open_node("bystander") as node,
    ):
        speeds = []
        node.create_subscription("nav_msgs/msg/Odometry", "odom", lambda m: speeds.append(m.twist.twist.linear.x))
        backend = driver(composed("robot=ackermann", *OPTIONS, *AGES))
        try:
            step = begin(backend)
            for _ in range(400):
                step = backend.step(np.array([0.0, 1.0], np.float32))  # straight on, into a wall
                if step.ended:
                    break
            assert step.terminated and not step.truncated
            assert step.rewards["crashed"] == 1 and step.rewards["impact"] > 0
            with pytest.raises(RuntimeError, match="call reset"):
                backend.step(np.zeros(2, np.float32))
            step = begin(backend)
            assert step.rewards["crashed"] == 0 and not step.ended
            backend.step(np.array([0.0, 1.0], np.float32))
            time.sleep(1.6)  # nobody sends commands for longer than the watchdog waits
            wait_until(lambda: abs(speeds[-1]) < 0.05)  # it has rolled out
            with pytest.raises(SafetyStop) as stop:
                for _ in range(20):
                    backend.step(np.zeros(2, np.float32))
            assert stop.value.reason == "robot_stopped"
            car.kill()
        finally:
            backend.close()


def test_the_car_is_told_to_stand_still_when_an_episode_ends(domain):
    """By its time limit, or because another one begins: before the reset, and before any command would be missed."""
    short = ("task=drive", "task.autonomous=false", "task.max_episode_steps=3", "robot.command.timeout=60")
    resets = ("robot.reset.service=laboratory/reset", "robot.reset.attempts=1")
    forward = np.array([0.0, 0.5], np.float32)
    with (
        virtual_robot(domain, *OPTIONS, "virtual.watchdog.hold_after=1", "virtual.watchdog.stop_after=20"),
        open_node("bystander") as node,
        open_node("laboratory") as laboratory,
    ):
        speeds = []
        kind = "ackermann_msgs/msg/AckermannDriveStamped"
        node.create_subscription(kind, "drive", lambda message: speeds.append(message.drive.speed))
        robot = laboratory.create_client("std_srvs/srv/Trigger", "reset")

        def reset(request):
            wait_until(lambda: not speeds or speeds[-1] == 0, 15)
            return robot.call(request, 20)

        laboratory.create_service("std_srvs/srv/Trigger", "laboratory/reset", reset)
        backend = driver(composed("robot=ackermann", *AGES, *short, *resets))
        try:
            begin(backend)
            while not backend.step(forward).truncated:
                pass
            wait_until(lambda: speeds and speeds[-1] == 0)
            assert max(speeds) > 0
            begin(backend)
            backend.step(forward)
            wait_until(lambda: speeds[-1] > 0)
            begin(backend)
        finally:
            backend.close()


def test_the_virtual_car_drives_as_the_simulated_one_does():
    """The same throttle for as long, ticked by itself or stepped: the same course, but for what is averaged."""
    stepped, ticked = make_backend("drive", autonomous=False), make_backend("drive", autonomous=False)
    robot = ticked.as_robot()
    robot.reset(3)
    step = stepped.reset(3)
    action = np.array([0.3, 0.4], np.float32)
    robot.command(BaseTarget(float(action[0]), float(action[1])))
    rewards = []
    for _ in range(20):
        step = stepped.step(action)
        robot.advance(round(1 / (20 * robot.tick)))
        rewards.append((step.rewards["progress"], robot.rewards()["progress"]))
    measured = robot.measure()
    np.testing.assert_allclose(measured["velocity"][:2], step.observation["state"][6:8], atol=1e-6)
    np.testing.assert_allclose(measured["acceleration"] / 9.81, step.observation["state"][:3], atol=1e-6)
    np.testing.assert_allclose(measured["rotation_rate"], step.observation["state"][3:6], atol=1e-6)
    np.testing.assert_allclose(robot.objects(), step.observation["object"], atol=1e-6)
    np.testing.assert_allclose(*np.transpose(rewards), atol=1e-9)
    stepped.close()
    robot.close()
    with pytest.raises(ConfigError, match="a multiple of 4 steps of physics"):
        make_backend("drive", control_rate=40.0).as_robot()

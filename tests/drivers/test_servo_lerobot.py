"""LeRobot's own SO-101 class on a virtual servo bus."""

import time
from pathlib import Path

import pytest

from robo_rl.drivers.servos.virtual_arm import VirtualServoArm
from tests.rigs.servo_rig import composed

follower = pytest.importorskip("lerobot.robots.so101_follower", reason="LeRobot is not installed")


def test_follower_of_lerobot_reads_and_moves_the_virtual_arm(tmp_path: Path) -> None:
    from robo_rl.app import build

    config = composed(f"robot.port={tmp_path / 'arm'}")
    arm: VirtualServoArm = build(config.robot, simulation=build(config.task), serve=True)
    settings = follower.SO101FollowerConfig(
        port=str(arm.bus.path), id="test", calibration_dir=tmp_path, use_degrees=True
    )
    robot = follower.SO101Follower(settings)
    try:
        robot.bus.connect()
        robot.calibration = robot.bus.calibration = robot.bus.read_calibration()
        assert robot.is_calibrated
        robot.configure()
        before = robot.get_observation()
        goal = before | {"shoulder_pan.pos": before["shoulder_pan.pos"] + 20, "gripper.pos": 30.0}
        for _ in range(40):
            robot.send_action(goal)
            time.sleep(0.05)
        after = robot.get_observation()
        assert after["shoulder_pan.pos"] == pytest.approx(goal["shoulder_pan.pos"], abs=2)
        assert after["gripper.pos"] == pytest.approx(30, abs=3)
        assert after["elbow_flex.pos"] == pytest.approx(before["elbow_flex.pos"], abs=2)
        robot.disconnect()
        assert not any(servo.is_driven for servo in arm.chain.servos)
    finally:
        arm.close()

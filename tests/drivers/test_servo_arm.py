"""Arms of servos as robots: observations, actions, calibration, and configurations that do not fit."""

import json
import math
import sys

import numpy as np
import pytest

from robo_rl.core import ConfigError, DriverError, MonotonicClock, RobotAwayError
from robo_rl.drivers.servos.arm import ServoArm
from robo_rl.drivers.servos.calibration import (
    Calibration,
    check_calibration,
    load_calibration,
    map_joint,
    nominal_calibration,
)
from robo_rl.drivers.servos.config import ServoArmConfig, ServoConfig
from robo_rl.drivers.servos.virtual_arm import VirtualServoArm
from tests.rigs.servo_rig import driving, eventually, make_driver, still

pytest.importorskip("serial", reason="the extra 'servos' is not installed")

LEROBOT = {
    "shoulder_pan": {"id": 1, "drive_mode": 0, "homing_offset": -1470, "range_min": 758, "range_max": 3292},
    "gripper": {"id": 6, "drive_mode": 0, "homing_offset": 1407, "range_min": 2031, "range_max": 3476},
}
"""A calibration file in LeRobot's format."""


def test_arm_goes_home_and_follows_actions_of_the_end_effector() -> None:
    with driving("task.terminate_on_success=false") as backend:
        step = backend.reset(1)
        names = list(backend.spec.observation["state"].names)
        place = [names.index(f"end_effector_{axis}") for axis in "xyz"]
        home = [names.index(f"{joint}_position") for joint in backend.robot.joints]
        assert np.allclose(step.observation["state"][home], backend.robot.home, atol=0.05)
        before = step.observation["state"][place].copy()
        for _ in range(4):
            step = backend.step(np.array([0, 1, 0], np.float32))
        moved = step.observation["state"][place] - before
        assert moved[1] > 0.02 and np.abs(moved[[0, 2]]).max() < 0.01, moved
        assert step.observation["object"].shape == backend.spec.observation["object"].shape
        assert 0 <= backend.clock.now_ns() - step.stamp_ns < 1e9 and step.expires_ns > step.stamp_ns
        assert step.success is False and backend.spec.reports_success
        backend.stop("a test")
        assert eventually(lambda: backend.virtual is not None and not backend.virtual.chain.servo(1).get("moving"))


def test_joint_actions_and_the_gripper_move_the_servos() -> None:
    options = ("task=pick_cube_so101", "task.controller.action_space=joint_delta")
    with driving(*options) as backend:
        assert backend.virtual is not None
        servo = backend.virtual.chain.servo
        pan, jaw = servo(1).get("present_position"), servo(6).get("present_position")
        for _ in range(3):
            backend.step(np.array([1, 0, 0, 0, 0, 1], np.float32))
        assert eventually(lambda: servo(1).get("present_position") - pan > 0.1 * 4096 / (2 * math.pi))
        assert eventually(lambda: servo(6).get("present_position") < jaw - 300), "the gripper closes"
        assert servo(6).get("torque_limit") == 500 and servo(1).get("proportional_gain") == 16


def test_arm_holds_at_the_end_and_is_relaxed_later() -> None:
    backend = make_driver("robot.relax_after=0.5", "robot.relax_on_close=true")
    try:
        backend.reset(0)
        backend.step(still(backend))
        backend.stop("a test")
        virtual = backend.virtual
        assert virtual is not None and all(servo.is_driven for servo in virtual.chain.servos)
        assert eventually(lambda: not any(servo.is_driven for servo in virtual.chain.servos))
        backend.reset(1)
        assert all(servo.is_driven for servo in virtual.chain.servos)
    finally:
        backend.close()
    assert not any(servo.is_driven for servo in virtual.chain.servos) and not virtual.bus.path.exists()


def test_nothing_jumps_when_the_servos_are_switched_on() -> None:
    """The servos still have goals of long ago, and limits of another program."""
    backend = make_driver("robot.homing_speed=3")
    try:
        backend.connect()
        assert backend.virtual is not None and backend._loop is not None
        chain = backend.virtual.chain
        before = [servo.get("present_position") for servo in chain.servos]
        for servo in chain.servos:
            servo.set("goal_position", 2600)
        backend._readings.fresh()
        backend._loop.hold()
        assert all(servo.is_driven for servo in chain.servos)
        goals = [servo.get("goal_position") for servo in chain.servos]
        assert goals == pytest.approx(before, abs=8)
        assert [servo.get("goal_velocity") for servo in chain.servos] == [1956] * 5 + [0]
        assert all(servo.get("lock") == 1 for servo in chain.servos)
    finally:
        backend.close()


def test_no_joint_is_commanded_faster_than_it_may_move() -> None:
    with driving("task.terminate_on_success=false", "robot.homing_speed=3") as backend:
        loop = backend._loop
        assert loop is not None and loop._motion is not None
        start = loop._motion.at(backend.clock.now_ns())
        loop.move(start[:-1] + np.array([2.0, -2.0, 0.01, 0, 0]), None, 0.05)
        assert np.allclose(loop._motion.end[:-1] - start[:-1], [0.15, -0.15, 0.01, 0, 0], atol=1e-6)
        loop.hold()


def test_servo_in_another_operating_mode_does_not_move() -> None:
    backend = make_driver()
    try:
        backend.virtual = VirtualServoArm(backend._config, backend._simulation.as_servos(), backend.clock)
        backend.virtual.chain.servo(3).set("operating_mode", 1)
        with pytest.raises(DriverError, match=r"servo 3 \(elbow_flex\) has operating mode 1, .* position control"):
            backend.reset(0)
        assert not any(servo.is_driven for servo in backend.virtual.chain.servos)
    finally:
        backend.close()


# --- calibration ----------------------------------------------------------------------------------------------------


def test_middle_of_the_range_is_the_middle_of_the_joint(tmp_path) -> None:
    file = tmp_path / "arm.json"
    file.write_text(json.dumps(LEROBOT))
    calibration = load_calibration(str(file))
    assert calibration["shoulder_pan"] == Calibration(1, -1470, 758, 3292)
    joint = map_joint("shoulder_pan", ServoConfig(1), calibration["shoulder_pan"], (-1.92, 1.92))
    assert joint.position(2025) == 0 and joint.position(2025 + 1024) == pytest.approx(math.pi / 2)
    assert joint.ticks(-9.0) == 758 and joint.ticks(9.0) == 3292
    reversed_ = map_joint("shoulder_pan", ServoConfig(1, reversed=True), calibration["shoulder_pan"], (-1.92, 1.92))
    assert reversed_.position(2025 + 1024) == pytest.approx(-math.pi / 2)
    jaw = map_joint("gripper", ServoConfig(6), calibration["gripper"], (-0.17, 1.75), is_gripper=True)
    assert jaw.position(2031) == pytest.approx(-0.17) and jaw.position(3476) == pytest.approx(1.75)


def test_gear_multiplies_the_ticks() -> None:
    servo, limits = ServoConfig(1, gear=0.5), (-1.0, 1.0)
    joint = map_joint("joint", servo, nominal_calibration(servo, limits), limits)
    assert joint.ticks(1.0) - joint.ticks(0.0) == pytest.approx(4096 / (4 * math.pi), abs=1)


def test_range_of_another_arm_is_refused() -> None:
    with pytest.raises(
        DriverError, match=r"servo 2 \(elbow\) is calibrated for a range of 6.28 rad .*lerobot-calibrate"
    ):
        map_joint("elbow", ServoConfig(2), Calibration(2, 0, 0, 4095), (-1.69, 1.69))


def test_file_of_another_arm_is_refused(tmp_path) -> None:
    file = tmp_path / "arm.json"
    file.write_text(json.dumps(LEROBOT))
    stored = {"shoulder_pan": Calibration(1, 0, 758, 3292)}
    with pytest.raises(DriverError, match=r"servo 1 \(shoulder_pan\) is calibrated otherwise than .*lerobot-calibrate"):
        check_calibration(str(file), load_calibration(str(file)), stored)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", "expected motors by name, got list"),
        ('{"a": {"id": 1}}', "expected whole numbers id, homing_offset, range_min, range_max of 'a'"),
        ("{", "cannot be read"),
        (json.dumps({"a": LEROBOT["gripper"] | {"drive_mode": 1}}), "set robot.servos.a.reversed=true"),
    ],
)
def test_other_files_are_refused(tmp_path, content: str, message: str) -> None:
    file = tmp_path / "arm.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message):
        load_calibration(str(file))


def test_servos_that_are_calibrated_otherwise_do_not_move(tmp_path) -> None:
    file = tmp_path / "arm.json"
    names = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
    file.write_text(json.dumps({name: LEROBOT["shoulder_pan"] | {"id": i} for i, name in enumerate(names, 1)}))
    backend = make_driver(f"robot.calibration={file}")
    with pytest.raises(DriverError, match="is calibrated otherwise"):
        backend.reset(0)
    assert backend.virtual is not None and not any(servo.is_driven for servo in backend.virtual.chain.servos)
    backend.close()


# --- configurations that do not fit ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["task=reach"], "the task's arm has the joints joint1, joint2.*task=reach_so101"),
        (["robot.port=/dev/nowhere"], "servos do not measure the task's objects; set task.observation.object=false"),
        (
            ["robot.port=/dev/nowhere", "task.observation.object=false", "task.observation.cameras=[front]"],
            "observes 'images/front', which no camera of robot.cameras gives",
        ),
        (["robot.servos.gripper.id=5"], "servos with different ids"),
        (["task=drive"], "needs a task with a simulated arm"),
    ],
)
def test_what_does_not_fit_is_named(options: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_driver(*options)


@pytest.mark.parametrize("joint", ["pan", "roll", "grip"])
@pytest.mark.parametrize("limits", [(-math.inf, math.inf), (0.0, math.inf), (-math.inf, 1.0), (math.nan, 1.0)])
def test_joint_without_a_range_is_refused(joint: str, limits: tuple[float, float]) -> None:
    """A servo in position control turns back by the way it came, and has no place for such a joint."""
    names = ("pan", "roll", "grip")
    config = ServoArmConfig(servos={name: ServoConfig(id=number) for number, name in enumerate(names, 1)})
    ranges = dict.fromkeys(names, (-1.0, 1.0)) | {joint: limits}
    with pytest.raises(ConfigError, match=f"the task's arm has no range for {joint}, but a servo"):
        ServoArm(config, "nowhere", names[:2], ranges, np.ones(2), "grip", MonotonicClock())


def test_absent_port_is_waited_for_and_named() -> None:
    backend = make_driver("robot.port=/dev/nowhere", "task.observation.object=false", "robot.start_timeout=0.1")
    with pytest.raises(RobotAwayError, match=r"/dev/nowhere cannot be opened: .*Is the arm plugged in"):
        backend.reset()
    backend.close()


def test_guard_is_refused_because_a_bus_has_one_master() -> None:
    backend = make_driver()
    with pytest.raises(ConfigError, match="a servo bus has one master"):
        backend.watch()
    backend.close()


def test_missing_pyserial_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "serial", None)
    backend = make_driver()
    with pytest.raises(ConfigError, match=r"pip install 'robo-rl\[servos\]'"):
        backend.reset(0)
    backend.close()

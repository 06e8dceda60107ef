"""Options of a robot that do not fit its task, or have no effect, are refused by name."""

from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.core import ConfigError
from robo_rl.drivers.robot import make_robot
from robo_rl.drivers.robot.config import CommandConfig, SourceConfig
from robo_rl.drivers.teleop.config import LeaderConfig

from ..rigs.robot_rig import composed, driver

JOINT_STATE = "sensor_msgs/msg/JointState"


def test_what_does_not_fit_is_refused_with_its_shape():
    for options, message in (
        (("~robot.sources.wrench",), r"nothing gives wrist_force_x, .* of the observation 'state' of shape \(36,\)"),
        (("~robot.sources.object",), r"observes 'object' of shape \(6,\), which no source gives"),
        (
            ("task.observation.cameras=[view]",),
            r"observes 'images/view' of shape \(128, 128, 3\), which no source gives",
        ),
        (("~robot.sources.joints",), "no source gives 'joints'"),
        (("task.controller.action_space=joint_delta",), "kind=pose cannot carry actions of the space 'joint_delta'"),
        (("task=pick_cube", "robot.gripper.kind=none"), "has no gripper .*, but actions of 'pick_cube' move one"),
        (("robot.sources.wrench.gives=joints",), "type of joints must be|give different things"),
        (("robot.align_to=cam",), "robot.align_to must be Valid: "),
        (("robot.align_to=ready",), "robot.align_to must be a source that is not latched, got 'ready'"),
    ):
        with pytest.raises(ConfigError, match=message):
            driver(composed(*options))
    other = SimpleNamespace(task="walk", control_rate=10.0, action_space="joint_torque")
    with pytest.raises(ConfigError, match=r"needs a task with a simulated arm or car, .* 'walk' has none"):
        make_robot(SimpleNamespace(spec=other))
    unmeasured = driver(composed("~robot.sources.wrench", "robot.unmeasured=[wrist_]"))
    assert unmeasured.spec.observation["state"].shape == (36,)


@pytest.mark.parametrize("beginning", ["joint1_velocity", "wrist_force", "end_effector_", "joint"])
def test_what_is_measured_cannot_be_unmeasured(beginning: str) -> None:
    """It would go on to be what the source says, and nobody would know."""
    with pytest.raises(ConfigError, match=rf"robot\.unmeasured: '{beginning}' has no effect: {beginning}"):
        driver(composed(f"robot.unmeasured=[{beginning}]"))
    driver(composed("robot.unmeasured=[no_such_element]"))  # tasks observe different things


UNUSED = [
    ("robot.sources.pose.closed=0.01", r"robot\.sources\.\*\.closed must be given only where the source gives gripper"),
    ("robot.sources.joints.open=1.2", r"robot\.sources\.\*\.open must be given only where the source gives gripper"),
    ("robot.sources.wrench.names=[a]", r"robot\.sources\.\*\.names must be given only where it gives joints or"),
    ("robot.sources.twist.camera.fps=30", r"robot\.sources\.\*\.camera must be given only where camera\.device is"),
    ("robot.command.stiffness=[100]", r"robot\.command\.stiffness must be given where kind=joint_efforts, and nowhere"),
    ("robot.command.damping=[3]", r"robot\.command\.damping must be given where kind=joint_efforts, and nowhere"),
    ("robot.command.joints=[a,b]", r"robot\.command\.joints must be given only where kind is joint_trajectory or"),
    ("robot.gripper.effort=5", r"robot\.gripper\.effort must be given only where kind=action, got 5"),
    ("robot.gripper.timeout=5", r"robot\.gripper\.timeout must be given only where kind=action, got 5"),
    ("robot.tare.force=90", r"robot\.tare\.force must be given only where robot\.tare\.seconds is above 0, got 90"),
    ("robot.tare.torque=9", r"robot\.tare\.torque must be given only where robot\.tare\.seconds is above 0, got 9"),
    ("robot.controllers.timeout=9", r"robot\.controllers\.timeout must be given only where robot\.controllers\.active"),
    ("robot.emergency_service='' robot.emergency_topic=''", r"robot\.rearm_service must be given only where emergency"),
]
"""Options of a robot without an effect, and the beginning of what is said of them."""


@pytest.mark.parametrize(("options", "message"), UNUSED)
def test_an_option_without_an_effect_is_refused(options: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        driver(composed(*options.split()))


@pytest.mark.parametrize("kind", ["joint_positions", "joint_velocities", "joint_efforts", "pose", "twist"])
def test_names_of_joints_are_refused_where_commands_name_none(kind: str) -> None:
    """These messages have no names, so a different order of joints would be ignored and the wrong joints would move."""
    gains = dict.fromkeys(("stiffness", "damping", "effort"), (1.0,)) if kind == "joint_efforts" else {}
    with pytest.raises(ConfigError, match=r"robot\.command\.joints must be given only where kind is joint_trajectory"):
        CommandConfig(kind=kind, topic="go", joints=("b", "a"), **gains)
    for named in ("joint_trajectory", "joint_trajectory_action"):
        assert CommandConfig(kind=named, topic="go", joints=("b", "a")).joints == ("b", "a")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SourceConfig("t", JOINT_STATE, "joints", names=("a", "b", "a")), r"robot\.sources\.\*\.names must be"),
        (lambda: SourceConfig("t", JOINT_STATE, "gripper", names=("l", "l")), r"robot\.sources\.\*\.names must be"),
        (lambda: SourceConfig("t", JOINT_STATE, "object", names=("x", "x")), r"robot\.sources\.\*\.names must be"),
        (lambda: CommandConfig("joint_trajectory", "t", joints=("a", "a")), r"robot\.command\.joints must be"),
        (lambda: LeaderConfig(joints=("a", "b", "b")), r"teleop\.leader\.joints must be"),
    ],
)
def test_a_joint_does_not_take_two_places(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"{message} different names, got \["):
        make()

"""Descriptions of arms from their models: joints, end effector, gripper, limits, home, and what is assumed."""

from pathlib import Path

import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim.arm_description import describe_arm

from .test_arm_files import CASES, backend

ROOT = Path(__file__).resolve().parents[2]
ARMS = ROOT / "tests" / "data" / "arms"

HAND = """
<mujoco>
  <compiler angle="radian" autolimits="true"/>
  <worldbody>
    <body name="table"><geom size="0.01"/></body>
    <body name="base"><geom size="0.05"/>
      <body name="upper" pos="0 0 0.2">
        <joint name="turn" axis="0 0 1" range="-2 2" actuatorfrcrange="-40 40"/>
        <joint name="lift" axis="0 1 0" range="-2 2"/>
        <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03" mass="1"/>
        <body name="palm" pos="0.4 0 0">
          <joint name="wrist" axis="1 0 0"/>
          <geom size="0.03" mass="0.3"/>
          <site name="camera_mount"/>
          <site name="tcp" pos="0.1 0 0"/>
          {fingers}
        </body>
      </body>
    </body>
  </worldbody>
  {rest}
</mujoco>
"""
FINGERS = """
<body name="left"><joint name="left" type="slide" axis="0 1 0" range="0 0.04"/><geom size="0.01"/></body>
<body name="right"><joint name="right" type="slide" axis="0 -1 0" range="0 0.04"/><geom size="0.01"/></body>
"""
JAW = '<body name="jaw"><joint name="jaw_joint" axis="0 0 1" range="0 1"/><geom size="0.01"/></body>'
TENDON = """
<tendon><fixed name="both"><joint joint="left" coef="0.5"/><joint joint="right" coef="0.5"/></fixed></tendon>
<actuator><motor name="lift_motor" joint="lift" gear="10" forcerange="-3 3"/>
  <position name="close" tendon="both" ctrlrange="0 0.04"/></actuator>
<keyframe><key name="folded" qpos="0 1 0 0 0"/><key name="home" qpos="0.1 0.2 0.3 0 0"/></keyframe>
"""
MOTOR = '<actuator><position name="jaw_motor" joint="jaw_joint" ctrlrange="-0.2 1.7"/></actuator>'


def written(folder: Path, fingers: str = "", rest: str = "") -> str:
    (folder / "arm.xml").write_text(HAND.format(fingers=fingers, rest=rest))
    return str(folder / "arm.xml")


def test_two_fingers_on_a_tendon_are_the_gripper_and_key_frame_and_motors_count(tmp_path: Path) -> None:
    arm = describe_arm(written(tmp_path, FINGERS, TENDON))
    assert (arm.joints, arm.end_effector) == (("turn", "lift", "wrist"), "tcp")
    assert (arm.gripper_joints, arm.gripper_actuator, arm.gripper_range) == (("left", "right"), "close", (0.0, 0.04))
    assert arm.home == (0.1, 0.2, 0.3), "the key frame with that name"
    assert arm.torque_limits[:2] == (40.0, 30.0), "of the joint; of the motor through its gear"
    notes = " ".join(arm.notes)
    assert "velocity_limits: the model has none for turn, lift, wrist" in notes
    assert "torque_limits: the model has none for wrist;" in notes
    assert "position limits: the model has none for wrist;" in notes
    assert "gripper_open: 0.04" in notes and "home" not in notes


def test_a_jaw_at_the_end_of_the_chain_is_the_gripper(tmp_path: Path) -> None:
    arm = describe_arm(written(tmp_path, JAW, MOTOR))
    assert arm.joints == ("turn", "lift", "wrist")
    assert (arm.gripper_joints, arm.gripper_actuator, arm.gripper_range) == (("jaw_joint",), "jaw_motor", (-0.2, 1.7))


def test_fingers_without_an_actuator_are_no_gripper(tmp_path: Path) -> None:
    arm = describe_arm(written(tmp_path, FINGERS))
    assert (arm.gripper_joints, arm.gripper_actuator) == ((), None)
    assert any("no named actuator moves left, right" in note for note in arm.notes)


def test_without_a_key_frame_home_is_ahead_and_within_the_ranges(tmp_path: Path) -> None:
    for path in (ARMS / "five_joints.xml", ARMS / "six_joints.xml", ROOT / "examples/six_joint_arm/arm.xml"):
        arm = describe_arm(str(path))
        x, y, z = arm.home_position / arm.reach
        assert 0.3 < x < 0.8 and abs(y) < 0.2 and 0.1 < z < 0.6
        assert all(limit > 0 for limit in (*arm.torque_limits, *arm.velocity_limits))
        assert any(note.startswith("home: the model has no key frame") for note in arm.notes)
        again = describe_arm(str(path))
        np.testing.assert_array_equal(arm.home_position, again.home_position)
        assert arm.home == again.home


def test_limits_of_a_urdf_file_are_read() -> None:
    arm = describe_arm(str(ROOT / "tests/data/cases/arms/arm.urdf"))
    assert arm.velocity_limits == (2.0,) * 6 and arm.torque_limits == (50.0,) * 6
    assert arm.end_effector == "l6" and any("the body 'l6' is taken" in note for note in arm.notes)


@pytest.mark.parametrize(
    ("body", "reasons"),
    [
        ('<joint/><geom size="0.1"/>', ["a joint of the body 'a' has no name", "no chain of named"]),
        ('<freejoint name="float"/><geom size="0.1"/>', ["a ball or free joint is between", "no chain of named"]),
        ('<geom size="0.1"/>', ["no chain of named hinges and slides"]),
        ('<joint name="turn" type="ball"/><geom size="0.1"/>', ["a ball or free joint is between"]),
    ],
)
def test_what_is_no_arm_is_refused_for_all_reasons_at_once(body: str, reasons: list[str], tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(f'<mujoco><worldbody><body name="a">{body}</body></worldbody></mujoco>')
    with pytest.raises(ConfigError) as caught:
        describe_arm(str(path))
    assert str(path) in str(caught.value) and all(reason in str(caught.value) for reason in reasons)


def test_a_slide_without_a_range_is_refused(tmp_path: Path) -> None:
    text = HAND.replace('<joint name="wrist" axis="1 0 0"/>', '<joint name="wrist" type="slide" axis="1 0 0"/>')
    (tmp_path / "arm.xml").write_text(text.format(fingers="", rest=""))
    with pytest.raises(ConfigError, match=r"the slide 'wrist' has no range"):
        describe_arm(str(tmp_path / "arm.xml"))


def test_two_arms_and_files_that_are_no_model_are_refused(tmp_path: Path) -> None:
    arm = '<body name="{0}"><joint name="{0}"/><geom size="0.1"/></body>'
    path = tmp_path / "arm.xml"
    path.write_text(f"<mujoco><worldbody>{arm.format('left')}{arm.format('right')}</worldbody></mujoco>")
    with pytest.raises(ConfigError, match="one arm alone, but 'left', 'right' move independently"):
        describe_arm(str(path))
    path.write_text("<mujoco><nonsense/></mujoco>")
    with pytest.raises(ConfigError, match="not a valid MJCF or URDF file"):
        describe_arm(str(path))
    with pytest.raises(ConfigError, match="there is no file"):
        describe_arm(str(tmp_path / "missing.xml"))


def test_chains_that_fork_before_a_gripper_and_bases_elsewhere_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    link = '<body name="{0}"><joint name="{0}"/><geom size="0.1"/>'
    limbs = "".join(link.format(f"{s}1") + link.format(f"{s}2") + "</body></body>" for s in ("left", "right"))
    body = f'<body name="torso"><joint name="waist"/><geom size="0.1"/>{limbs}</body>'
    path.write_text(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    with pytest.raises(ConfigError, match="forks after 'waist' into longer chains"):
        describe_arm(str(path))
    path.write_text(Path(written(tmp_path)).read_text().replace('name="base"', 'name="base" pos="2 0 1"'))
    with pytest.raises(ConfigError, match=r"the joint 'turn' is 2\.00 m away from the z axis"):
        describe_arm(str(path))


def test_a_light_joint_has_a_torque_limit(tmp_path: Path) -> None:
    arm = describe_arm(written(tmp_path))
    assert min(arm.torque_limits) >= 0.1 and len(arm.torque_limits) == 3


FINGER = '<joint name="finger" axis="0 1 0" armature="0.005" damping="0.1"/>'


@pytest.mark.parametrize(
    "joint",
    [
        FINGER.replace("<joint", '<joint type="slide"'),
        FINGER.replace("<joint", '<joint limited="false" range="0 0.8"'),
        FINGER.replace("<joint", '<joint range="0 0"'),
        FINGER.replace('"finger"', '"other" range="0 0.8"') + FINGER,
    ],
    ids=["a slide", "a range that does not count", "an empty range", "one of two fingers"],
)
def test_fingers_without_a_range_of_any_kind_are_refused_by_name(joint: str, tmp_path: Path) -> None:
    text = (CASES / "finger_endless.xml").read_text()
    assert FINGER in text
    file = tmp_path / "arm.xml"
    file.write_text(text.replace(FINGER, joint))
    fingers = ("other", "finger") if "other" in joint else ("finger",)
    with pytest.raises(ConfigError, match=r"arm\.gripper_joints: the finger 'finger' has no range"):
        backend(file, gripper_actuator="grip", gripper_joints=fingers, gripper_open=0.8, gripper_closed=0.0)

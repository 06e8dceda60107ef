"""The built-in arm against the published numbers, and an arm from a file."""

import math
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim import make_backend
from robo_rl.sim.arm import FINGER_FORCE, load_arm, looking_at
from robo_rl.sim.config import ArmConfig, ControllerConfig

SMALL_ARM = """
<mujoco model="small">
  <compiler angle="radian"/>
  <default><joint armature="0.05" damping="0.2"/><geom contype="1" conaffinity="0"/></default>
  <worldbody>
    <body name="base">
      <geom type="cylinder" size="0.05 0.05" pos="0 0 0.05"/>
      <body pos="0 0 0.15"><joint name="pan" axis="0 0 1" range="-3 3"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.05" size="0.04"/>
        <body><joint name="lift" axis="0 1 0" range="-2 2"/>
          <geom type="capsule" fromto="0 0 0 0 0 0.35" size="0.04" mass="2"/>
          <body pos="0 0 0.35"><joint name="elbow" axis="0 1 0" range="0 2.9"/>
            <geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.03" mass="1"/>
            <body pos="0 0 0.3"><joint name="wrist1" axis="0 1 0" range="-3 3"/>
              <geom type="capsule" fromto="0 -0.03 0 0 0.03 0" size="0.03" mass="0.3"/>
              <body pos="0 0 0.06"><joint name="wrist2" axis="0 0 1" range="-3 3"/>
                <geom type="sphere" size="0.03" mass="0.2"/>
                <body pos="0 0 0.06"><joint name="wrist3" axis="1 0 0" range="-3 3"/>
                  <geom type="box" size="0.02 0.06 0.02" mass="0.2"/>
                  <site name="tool" pos="0 0 0.1"/>
                  <body pos="0 0.0 0.05"><joint name="jaw1" type="slide" axis="0 1 0" range="0 0.04"/>
                    <geom type="box" pos="0 0.005 0.03" size="0.01 0.005 0.03" mass="0.02" friction="2 0.01 0.001"/></body>
                  <body pos="0 0.0 0.05"><joint name="jaw2" type="slide" axis="0 -1 0" range="0 0.04"/>
                    <geom type="box" pos="0 -0.005 0.03" size="0.01 0.005 0.03" mass="0.02" friction="2 0.01 0.001"/></body>
                </body>
              </body>
            </body>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon><fixed name="jaws"><joint joint="jaw1" coef="0.5"/><joint joint="jaw2" coef="0.5"/></fixed></tendon>
  <equality><joint joint1="jaw1" joint2="jaw2"/></equality>
  <actuator>
    <position joint="pan" kp="100"/><position joint="lift" kp="100"/><position joint="elbow" kp="100"/>
    <position name="jaws" tendon="jaws" kp="2000" kv="100" ctrlrange="0 0.04" forcerange="-30 30"/>
  </actuator>
  <keyframe><key name="home" qpos="0 0 0 0 0 0 0 0"/></keyframe>
</mujoco>
"""  # noqa: E501


@pytest.fixture
def small_arm(tmp_path: Path) -> ArmConfig:
    path = tmp_path / "small.xml"
    path.write_text(SMALL_ARM)
    # Upper arm and forearm bent such that the tool points down at about (0.4, 0, 0.15).
    return ArmConfig(
        model=str(path),
        joints=("pan", "lift", "elbow", "wrist1", "wrist2", "wrist3"),
        end_effector="tool",
        home=(0.0, 0.5, 1.2, 1.4416, 0.0, 0.0),
        torque_limits=(60.0, 60.0, 60.0, 20.0, 20.0, 20.0),
        velocity_limits=(3.0,) * 6,
        gripper_actuator="jaws",
        gripper_joints=("jaw1", "jaw2"),
        gripper_open=0.04,
        wrist_sensor_site=None,
    )


def test_published_numbers():
    model = load_arm(ArmConfig()).compile()
    joints = [model.joint(f"joint{i}") for i in range(1, 8)]
    np.testing.assert_allclose(
        [joint.range for joint in joints],
        [(-2.8973, 2.8973), (-1.7628, 1.7628), (-2.8973, 2.8973), (-3.0718, -0.0698), (-2.8973, 2.8973),
         (-0.0175, 3.7525), (-2.8973, 2.8973)],
    )  # fmt: skip
    torques = [model.actuator(f"torque_joint{i}").forcerange[1] for i in range(1, 8)]
    assert torques == [87.0] * 4 + [12.0] * 3
    masses = [model.body(f"link{i}").mass[0] for i in range(8)]
    np.testing.assert_allclose(masses, [0.629769, 4.970684, 0.646926, 3.228604, 3.587895, 1.225946, 1.666555, 0.735522])
    np.testing.assert_allclose(model.body("link4").ipos, [-0.05317, 0.104419, 0.027454])
    # Principal moments are the eigenvalues of the published tensor.
    tensor = np.array(
        [[0.025853, 0.007796, -0.001332], [0.007796, 0.019552, 0.008641], [-0.001332, 0.008641, 0.028323]]
    )
    np.testing.assert_allclose(np.sort(model.body("link4").inertia), np.linalg.eigvalsh(tensor), rtol=1e-4)
    assert model.actuator("gripper").forcerange[1] == 2 * FINGER_FORCE


def test_an_arm_from_a_file_reaches(small_arm):
    controller = ControllerConfig(
        action_axes="xyz", stiffness=(800.0,) * 3 + (30.0,) * 3, damping=(60.0,) * 3 + (3.0,) * 3
    )
    backend = make_backend(
        "reach", arm=small_arm, controller=controller, goal_low=(0.35, -0.1, 0.1), goal_high=(0.45, 0.1, 0.2)
    )
    assert backend.spec.observation["state"].names[:2] == ("pan_position", "lift_position")
    for seed in range(5):
        step = backend.reset(seed)
        assert backend.arm.rotation(backend.data)[2, 2] < -0.95, "the tool points down"
        expert = backend.expert(seed)
        while not step.ended:
            step = backend.step(expert.act(step.observation))
        assert step.success


def test_an_arm_from_a_file_picks_up_the_cube(small_arm):
    controller = ControllerConfig(
        action_axes="xyz+gripper", stiffness=(800.0,) * 3 + (30.0,) * 3, damping=(60.0,) * 3 + (3.0,) * 3
    )
    backend = make_backend("pick_cube", arm=small_arm, controller=controller, area_centre=(0.42, 0.0), area_size=0.1)
    step = backend.reset(0)
    expert = backend.expert(0)
    while not step.ended:
        step = backend.step(expert.act(step.observation))
    assert step.success


def test_what_drove_an_arms_joints_is_replaced_by_motors(small_arm):
    model = load_arm(small_arm).compile()
    assert [model.actuator(i).name for i in range(model.nu)] == [
        "jaws",
        *(f"torque_{name}" for name in small_arm.joints),
    ]
    data = mujoco.MjData(model)
    data.ctrl[model.actuator("torque_elbow").id] = 1.5
    mujoco.mj_forward(model, data)
    assert data.qfrc_actuator[model.joint("elbow").dofadr[0]] == pytest.approx(1.5)


def test_an_arm_without_gripper(small_arm):
    arm = ArmConfig(
        model=small_arm.model, joints=small_arm.joints, end_effector="tool", home=small_arm.home,
        torque_limits=small_arm.torque_limits, velocity_limits=small_arm.velocity_limits,
        gripper_actuator=None, gripper_joints=(), wrist_sensor_site=None,
    )  # fmt: skip
    backend = make_backend("reach", arm=arm, controller=ControllerConfig(action_axes="full"))
    assert backend.spec.action.names == ("x", "y", "z", "roll", "pitch", "yaw")
    assert "gripper_opening" not in backend.spec.observation["state"].names
    backend.reset(0)
    backend.spec.check_observation(backend.step(np.zeros(6, dtype=np.float32)).observation)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"joints": ("joint1", "jiont2"), "home": (0, 0), "torque_limits": (1, 1), "velocity_limits": (1, 1)},
         "arm.joints: the model has no 'jiont2'; did you mean 'joint"),
        ({"end_effector": "end_efector"}, "arm.end_effector: .* no 'end_efector'; did you mean 'end_effector'"),
        ({"gripper_actuator": "griper"}, "arm.gripper_actuator: the model has no 'griper'; did you mean 'gripper'"),
        ({"wrist_sensor_site": "x"}, "arm.wrist_sensor_site: the model has no 'x'. *Valid: end_effector, wrist"),
        ({"model": "nowhere.xml"}, "arm.model: there is no file nowhere.xml"),
    ],
)  # fmt: skip
def test_names_that_the_model_lacks(changes, message):
    with pytest.raises(ConfigError, match=message):
        load_arm(ArmConfig(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"home": (math.nan, *ArmConfig().home[1:])}, r"arm\.home must be finite numbers, got \(nan, "),
        ({"home_noise": math.inf}, r"arm\.home_noise must be 0 or more"),
        ({"gripper_open": math.nan}, r"arm\.gripper_open must be a number unlike gripper_closed=0\.0, got nan"),
        ({"home_opening": 1.5}, r"arm\.home_opening must be in \[0, 1\], got 1\.5"),
    ],
)
def test_numbers_that_are_none_or_out_of_range_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ArmConfig(**changes)


def test_all_wrong_fields_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        ArmConfig(home=(0.0, 0.0), torque_limits=(1.0,), home_opening=2.0, force_limit=-1.0, gripper_open=0.0)
    problems = str(caught.value).split("; ")
    fields = ["home_opening", "home", "torque_limits", "force_limit", "gripper_open"]
    assert [problem.partition(" must be ")[0] for problem in problems] == [f"arm.{field}" for field in fields]


def test_all_names_that_the_model_lacks_are_named_at_once() -> None:
    joints = ("joint1", "jiont2", "jiont3")
    arm = ArmConfig(
        joints=joints, end_effector="tol", home=(0, 0, 0), torque_limits=(1, 1, 1), velocity_limits=(1, 1, 1)
    )
    with pytest.raises(
        ConfigError, match=r"no 'jiont2', 'jiont3'; did you mean 'joint2.*\. arm.end_effector: .* 'tol'"
    ):
        load_arm(arm)


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "broken.xml"
    path.write_text("<mujoco><worldbody><body></worldbody></mujoco>")
    with pytest.raises(ConfigError, match="is not a valid MJCF file"):
        load_arm(ArmConfig(model=str(path)))


def test_cameras_look_at_their_target():
    rotation = np.empty(9)
    mujoco.mju_quat2Mat(rotation, looking_at((1.0, 2.0, 3.0), (0.0, 0.0, 1.0))["quat"])
    axes = rotation.reshape(3, 3)
    np.testing.assert_allclose(-axes[:, 2], np.array([-1, -2, -2]) / 3, atol=1e-12)
    assert axes[2, 0] == pytest.approx(0.0), "the horizon is level"
    assert axes[2, 1] > 0, "up is up"

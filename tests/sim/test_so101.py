"""The built-in SO-101: its kinematics against the public description, and its tasks with their scripted experts."""

import mujoco
import numpy as np
import pytest
from hydra import compose, initialize_config_module

from robo_rl.app import build, register_all_configs
from robo_rl.core import ConfigError
from robo_rl.sim.arm import BUILT_IN, load_arm
from robo_rl.sim.backend import ArmBackend
from robo_rl.sim.config import ArmConfig
from robo_rl.sim.tasks.base import GraspSensor

POSTURES = (
    ((0.0, 0.0, 0.0, 0.0, 0.0, 0.0), (0.29323, 0.0, 0.23437), (-1.0, 0.0, 0.0), (0.31663, 0.25546)),
    ((0.3, 0.4, -0.5, 0.6, 0.7, 0.8), (0.3133, -0.0851, 0.1987), (-0.8384, 0.2593, 0.4794), None),
)
"""Joints, and from so101_new_calib.xml of the public description: origin of the gripper, axis of wrist_roll, and x and
z of the jaw's hinge."""
ROLL_OFFSET = 0.0487
"""Difference of the two zeros of wrist_roll [rad]."""


def make(task: str, *options: str) -> ArmBackend:
    register_all_configs()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        config = compose("train", overrides=[f"task={task}", *options])
    return build(config.task)


@pytest.mark.parametrize(("joints", "origin", "axis", "hinge"), POSTURES)
def test_kinematics_are_those_of_the_public_description(joints, origin, axis, hinge) -> None:
    model = mujoco.MjModel.from_xml_path(str(BUILT_IN["so101"]))
    data = mujoco.MjData(model)
    data.qpos[:] = joints
    data.qpos[4] -= ROLL_OFFSET
    mujoco.mj_forward(model, data)
    assert np.allclose(data.xpos[model.body("gripper").id], origin, atol=3e-4)
    assert np.allclose(data.xaxis[model.joint("wrist_roll").id], axis, atol=1e-3)
    if hinge is not None:
        assert np.allclose(data.xanchor[model.joint("gripper").id][[0, 2]], hinge, atol=3e-4)


def test_closed_jaws_touch_and_open_ones_take_the_cube() -> None:
    model = mujoco.MjModel.from_xml_path(str(BUILT_IN["so101"]))
    data, gaps = mujoco.MjData(model), []
    for angle in (*model.joint("gripper").range, 0.9):
        data.qpos[5] = angle
        mujoco.mj_forward(model, data)
        gaps.append(
            mujoco.mj_geomDistance(model, data, model.geom("fixed_pad").id, model.geom("moving_pad").id, 1, np.empty(6))
        )
    assert abs(gaps[0]) < 0.003 and gaps[1] > gaps[2] > 0.045


@pytest.mark.parametrize("task", ["reach_so101", "pick_cube_so101", "push_cube_so101"])
def test_scripted_expert_solves_the_task(task: str) -> None:
    backend, solved = make(task), 0
    for seed in range(3):
        step = backend.reset(seed)
        expert = backend.expert(seed)
        expert.reset()
        while not step.ended:
            step = backend.step(expert.act(step.observation))
        solved += bool(step.success)
    backend.close()
    assert solved == 3


def test_only_moving_jaw_alone_holds_nothing() -> None:
    backend = make("pick_cube_so101")
    sensor = GraspSensor(backend.model, backend.config.arm, "cube")
    backend.reset(0)
    data, gripper = backend.data, backend.model.body("gripper").id
    cube = backend.model.joint("cube").qposadr[0]
    outwards = data.xmat[gripper].reshape(3, 3)

    def put(offset: float) -> None:
        """Put the cube between the jaws, ``offset`` [m] above the end effector as the gripper has it."""
        tip = data.site_xpos[backend.model.site("end_effector").id]
        data.qpos[cube : cube + 3] = tip + outwards[:, 2] * offset
        mujoco.mju_mat2Quat(data.qpos[cube + 3 : cube + 7], data.xmat[gripper])
        mujoco.mj_forward(backend.model, data)

    put(-0.0085)
    assert sensor.touches(data) and not sensor.holds(data), "the fixed jaw alone"
    put(0.04)
    assert sensor.touches(data) and not sensor.holds(data), "the moving jaw alone"
    backend.close()


def test_joint_actions_move_it() -> None:
    backend = make("reach_so101", "task.controller.action_space=joint_delta")
    step = backend.reset(0)
    names = list(backend.spec.observation["state"].names)
    before = step.observation["state"][names.index("elbow_flex_position")]
    for _ in range(5):
        step = backend.step(np.array([0, 0, 1, 0, 0], np.float32))
    assert step.observation["state"][names.index("elbow_flex_position")] - before > 0.3
    backend.close()


def test_unknown_arm_names_the_built_in_one() -> None:
    with pytest.raises(
        ConfigError, match="there is no file so100; expected the path of an MJCF or URDF file, or so101"
    ):
        load_arm(ArmConfig(model="so100"))

"""The simulated arm as a robot, and what its actions mean to a driver: both against the backend that is stepped."""

import mujoco
import numpy as np
import pytest

from robo_rl.core import ArmTarget, ConfigError
from robo_rl.sim import make_backend


@pytest.mark.parametrize("task", ["reach", "pick_cube"])
@pytest.mark.parametrize("space", ["end_effector_delta", "joint_delta", "joint_position"])
def test_an_action_by_way_of_its_target_does_what_a_step_does(task, space):
    """The path of a driver: measure, make a target of the action, command it, let a control period pass."""
    from robo_rl.sim.config import ControllerConfig

    axes = "full" if task == "pick_cube" else "xyz"
    controller = ControllerConfig(action_space=space, action_axes=axes)
    stepped, twin, moved = (make_backend(task, controller=controller) for _ in range(3))
    robot, model = moved.as_robot(), twin.as_model()
    n = len(robot.joints)
    first = stepped.reset(3)
    robot.reset(3)
    model.begin(robot.measure()["joint_positions"])
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(first.observation["state"][:n], robot.measure()["joint_positions"], atol=1e-6)
    for number in range(8):
        size = stepped.spec.action.shape[0]
        action = np.zeros(size, np.float32) if number in (3, 4) else rng.uniform(-0.3, 0.3, size).astype(np.float32)
        step = stepped.step(action)
        robot.command(model.target(robot.measure()["joint_positions"], action))
        robot.advance(stepped.config.ticks)
        np.testing.assert_allclose(moved.data.qpos, stepped.data.qpos, atol=1e-6)
        assert robot.rewards() == pytest.approx(step.rewards)
        np.testing.assert_allclose(robot.objects(), step.observation["object"], atol=1e-5)
        measured = robot.measure()
        np.testing.assert_allclose(measured["wrist_force"], step.observation["state"][29:32], atol=0.05)
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, measured["quaternion"])
        pose = model.pose(measured["joint_positions"])
        np.testing.assert_allclose(rotation.reshape(3, 3), pose.rotation, atol=1e-9)
        np.testing.assert_allclose(measured["position"], pose.position, atol=1e-9)
        linear, angular = model.velocity(measured["joint_positions"], measured["joint_velocities"])
        np.testing.assert_allclose(measured["linear_velocity"], linear, atol=1e-9)
        np.testing.assert_allclose(measured["angular_velocity"], angular, atol=1e-9)
        if step.ended:
            break


def test_a_robot_that_is_told_to_hold_comes_to_rest():
    backend = make_backend("reach")
    robot, model = backend.as_robot(), make_backend("reach").as_model()
    robot.reset(0)
    model.begin(robot.measure()["joint_positions"])
    for _ in range(3):
        robot.command(model.target(robot.measure()["joint_positions"], np.array([0, 1, 0], np.float32)))
        robot.advance(50)
    assert np.abs(robot.measure()["joint_velocities"]).max() > 0.3
    held = robot.measure()["position"]
    robot.hold()
    robot.advance(1000)
    assert np.abs(robot.measure()["joint_velocities"]).max() < 0.01
    assert np.linalg.norm(robot.measure()["position"] - held) < 0.03


def test_a_target_of_the_wrong_kind_is_refused():
    robot = make_backend("reach").as_robot()
    with pytest.raises(ConfigError, match="takes poses, not joint positions"):
        robot.command(ArmTarget(joints=np.zeros(7)))
    robot.command(ArmTarget(opening=0.0))
    robot.advance(300)
    assert robot.measure()["fingers"].max() < 0.005

"""The way home of a robot's end effector along axes that actions do not move."""

import numpy as np
import pytest

from robo_rl.core import vector_of_matrix
from robo_rl.sim import make_backend
from robo_rl.sim.arm_model import ArmModel
from robo_rl.sim.config import ArmConfig, ControllerConfig


def moved(model: ArmModel, joints: np.ndarray, displacement: list[float]) -> np.ndarray:
    """Return the joint positions after a small displacement (6) of the end effector."""
    columns = [np.concatenate(model.velocity(joints, velocities)) for velocities in np.eye(len(joints))]
    return joints + np.linalg.pinv(np.transpose(columns)) @ displacement


@pytest.mark.parametrize(("axes", "frame"), [("xyz", "base"), ("x+yaw", "base"), ("x+y+yaw", "end_effector")])
@pytest.mark.parametrize("rate", [50.0, 500.0])
def test_targets_lead_home_no_faster_than_the_end_effector_may_move(rate, axes, frame):
    controller = ControllerConfig(action_space="end_effector_delta", action_axes=axes, action_frame=frame)
    backend = make_backend("reach", control_rate=rate, arm=ArmConfig(home_noise=0.0), controller=controller)
    model, robot, nothing = backend.as_model(), backend.robot, np.zeros(backend.spec.action.shape[0], np.float32)
    joints = np.add(robot.home, [0.0, 0.0, 0.3, 0.0, 0.4, 0.3, 0.0])
    model.begin(joints)
    shifts, turns = [], []
    for _ in range(round(0.6 * rate)):  # the robot follows exactly
        pose, target = model.pose(joints), model.target(joints, nothing).pose
        shift, turn = target.position - pose.position, vector_of_matrix(target.rotation @ pose.rotation.T)
        shifts.append(np.linalg.norm(shift))
        turns.append(np.linalg.norm(turn))
        joints = moved(model, joints, [*shift, *turn])
    assert max(shifts) <= robot.linear_speed / rate * 1.0001
    assert 0.99 < max(turns) / (robot.angular_speed / rate) < 1.0001, "it was as fast as it may be"
    assert shifts[-1] < 1e-3 and turns[-1] < 1e-3, "it arrived"


@pytest.mark.parametrize("size", [0.0, 0.1])
def test_a_load_does_not_pull_the_arm_away(size):
    """The robot sags below its targets by several times as much as a target may lead home, also while it acts."""
    controller = ControllerConfig(action_space="end_effector_delta", action_axes="x+yaw")
    backend = make_backend("reach", control_rate=500.0, arm=ArmConfig(home_noise=0.0), controller=controller)
    model, home = backend.as_model(), np.array(backend.robot.home)
    joints = moved(model, home, [0, 0, 0.03, 0, 0, 0])
    model.begin(joints)
    sag = 5 * backend.robot.linear_speed / 500
    for step in range(100):
        action = np.zeros(backend.spec.action.shape[0], np.float32)
        action[0] = size if step % 2 else -size
        pose, target = model.pose(joints), model.target(joints, action).pose
        turn = vector_of_matrix(target.rotation @ pose.rotation.T)
        joints = moved(model, joints, [*(target.position - [0, 0, sag] - pose.position), *turn])
    assert model.pose(joints).position[2] == pytest.approx(model.pose(home).position[2] - sag, abs=2e-3)

"""The way home of a robot's end effector along axes that actions do not move."""

import numpy as np
import pytest

from robo_rl.core import vector_of_matrix
from robo_rl.sim import make_backend
from robo_rl.sim.config import ArmConfig, ControllerConfig


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
        jacobian = np.zeros((6, len(joints)))
        for joint in range(len(joints)):
            velocities = np.eye(len(joints))[joint]
            jacobian[:, joint] = np.concatenate(model.velocity(joints, velocities))
        joints = joints + np.linalg.pinv(jacobian) @ [*shift, *turn]
    assert max(shifts) <= robot.linear_speed / rate * 1.0001
    assert 0.99 < max(turns) / (robot.angular_speed / rate) < 1.0001, "it was as fast as it may be"
    assert shifts[-1] < 1e-3 and turns[-1] < 1e-3, "it arrived"

"""Actions of the arm's controllers: scales, frames, what they hold and where they end."""

import numpy as np
import pytest

from robo_rl.sim.backend import ArmBackend
from robo_rl.sim.config import ArmConfig
from robo_rl.sim.controller import logarithm
from robo_rl.sim.joint_controller import JointController

from .test_controller import STILL, action, room, run_ticks


def test_joint_position_actions_are_shares_of_the_joint_range():
    backend = room(action_space="joint_position", action_axes="gripper")
    controller = backend.controller
    assert isinstance(controller, JointController)
    goal = backend.data.qpos[:7] + np.array([0.3, 0.2, -0.2, 0.2, 0.3, -0.3, 0.2])
    wanted = 2 * (goal - controller.lower) / (controller.upper - controller.lower) - 1
    for _ in range(30):
        backend.step(np.append(wanted, 1.0).astype(np.float32))
    np.testing.assert_allclose(backend.data.qpos[:7], goal, atol=1e-3)
    assert backend.arm.opening(backend.data) == pytest.approx(0.0, abs=0.01)


def test_joint_deltas_start_from_the_measured_positions():
    backend = room(action_space="joint_delta", action_axes="xyz", joint_scale=0.05)
    assert backend.spec.action.names == STILL.joints
    before = backend.data.qpos[:7].copy()
    command = np.zeros(7, dtype=np.float32)
    command[3] = 1.0
    backend.controller.command(backend.data, command)
    run_ticks(backend, 1000)
    np.testing.assert_allclose(backend.data.qpos[:7] - before, [0, 0, 0, 0.05, 0, 0, 0], atol=1e-3)


@pytest.mark.parametrize("space", ["end_effector_delta", "joint_delta"])
def test_zero_actions_hold_against_a_load(space):
    """Ten newtons on the hand: the arm gives way as far as its stiffness says, and creeps no further."""
    backend = room(action_space=space)
    idle = np.zeros(backend.spec.action.shape, dtype=np.float32)
    start = backend.arm.position(backend.data)
    backend.data.xfrc_applied[backend.model.body("hand").id, 2] = -10.0
    heights = []
    for _ in range(40):
        backend.step(idle)
        heights.append(backend.arm.position(backend.data)[2] - start[2])
    if space == "end_effector_delta":
        assert heights[-1] == pytest.approx(-10.0 / 2000.0, abs=5e-4)
    assert heights[-1] == pytest.approx(heights[20], abs=2e-4)


def test_a_zero_action_stops_the_arm():
    backend = room()
    for _ in range(3):
        backend.step(action(backend, x=1.0))
    moving = backend.arm.position(backend.data)
    for _ in range(10):
        backend.step(action(backend))
    assert np.abs(backend.arm.position(backend.data) - moving).max() < 0.02
    assert np.abs(backend.data.qvel[:7]).max() < 1e-2


def settle(backend: ArmBackend, **values: float) -> tuple[np.ndarray, np.ndarray]:
    """Command one action, wait, and return how position and orientation (rotation vector) changed."""
    position, rotation = backend.arm.position(backend.data), backend.arm.rotation(backend.data)
    backend.controller.command(backend.data, action(backend, **values))
    run_ticks(backend, 1000)
    return (
        backend.arm.position(backend.data) - position,
        logarithm(backend.arm.rotation(backend.data) @ rotation.T),
    )


def test_a_full_action_moves_by_the_scale():
    moved, turned = settle(room(), x=1.0, y=-0.5, yaw=0.5)
    np.testing.assert_allclose(moved, [0.05, -0.025, 0.0], atol=2e-4)
    np.testing.assert_allclose(turned, [0, 0, 0.1], atol=2e-3)


def test_actions_in_the_end_effectors_frame():
    # At home the end effector's axes are x, -y, -z of the base.
    moved, turned = settle(room(action_frame="end_effector"), y=1.0, z=0.4, yaw=0.5)
    np.testing.assert_allclose(moved, [0.0, -0.05, -0.02], atol=2e-4)
    np.testing.assert_allclose(turned, [0, 0, -0.1], atol=2e-3)


def test_axes_that_do_not_move_stay_at_home():
    backend = room(action_axes="x+y+yaw+gripper", arm=ArmConfig(home_noise=0.03))
    assert backend.spec.action.names == ("x", "y", "yaw", "gripper")
    for _ in range(12):
        backend.step(action(backend, x=0.2, yaw=1.0, gripper=-1.0))
    run_ticks(backend, 500)
    rotation = backend.arm.rotation(backend.data)
    np.testing.assert_allclose(rotation[:, 2], [0, 0, -1], atol=2e-3)
    assert np.arctan2(rotation[1, 0], rotation[0, 0]) > 1.0
    assert backend.arm.position(backend.data)[2] == pytest.approx(0.18, abs=1e-3)


def test_the_reference_stays_in_the_workspace():
    backend = room(workspace_high=(0.55, 0.4, 0.6))
    for _ in range(20):
        backend.step(action(backend, x=1.0))
    assert backend.arm.position(backend.data)[0] == pytest.approx(0.55, abs=1e-3)

"""The backend beyond the contract: rates, instability, actions towards a pose."""

import numpy as np
import pytest

from robo_rl.core import ConfigError, DriverError
from robo_rl.sim import ArmBackend, make_backend
from robo_rl.sim.config import ArmConfig, ControllerConfig
from robo_rl.sim.controller import exponential, logarithm


def reach(axes: str = "full", **controller: str) -> ArmBackend:
    backend = make_backend(
        "reach",
        arm=ArmConfig(home_noise=0.0),
        controller=ControllerConfig(action_axes=axes, **controller),
        terminate_on_success=False,
    )
    backend.reset(0)
    return backend


@pytest.mark.parametrize(("control_rate", "rate"), [(10.0, 500.0), (20.0, 1000.0), (5.0, 500.0)])
def test_a_step_is_one_control_period(control_rate, rate):
    backend = make_backend(
        "reach", control_rate=control_rate, controller=ControllerConfig(action_axes="xyz", rate=rate)
    )
    assert backend.spec.control_rate == control_rate
    assert backend.reset(0).stamp_ns == 0
    for number in range(1, 4):
        step = backend.step(np.zeros(3, dtype=np.float32))
        assert step.stamp_ns == round(number * 1e9 / control_rate)


def test_an_unstable_simulation_is_reported_and_forgotten():
    backend = reach()
    expected = backend.reset(4).observation["state"].copy()
    backend.data.qvel[0] = 1e200
    idle = np.zeros(7, dtype=np.float32)
    with pytest.raises(DriverError, match="the simulation became unstable in step 1"):
        backend.step(idle)
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        backend.step(idle)
    np.testing.assert_array_equal(backend.reset(4).observation["state"], expected)


def test_experts_need_end_effector_actions():
    backend = make_backend("reach", controller=ControllerConfig(action_space="joint_delta"))
    with pytest.raises(ConfigError, match=r"needs .*=end_effector_delta, not joint_delta"):
        backend.expert(0)


def test_a_long_way_is_shortened_without_a_change_of_direction():
    backend = reach()
    position = backend.arm.position(backend.data)
    action = backend.simulation.action_towards(position + np.array([0.2, -0.1, 0.05]), gripper=0.5)
    np.testing.assert_allclose(action, [1.0, -0.5, 0.25, 0, 0, 0, 0.5], atol=1e-6)
    action = backend.simulation.action_towards(position + np.array([0.01, 0.0, -0.02]))
    np.testing.assert_allclose(action, [0.2, 0, -0.4, 0, 0, 0, -1.0], atol=1e-6)


@pytest.mark.parametrize("frame", ["base", "end_effector"])
def test_actions_towards_a_pose_reach_it(frame):
    backend = reach(action_frame=frame)
    position = backend.arm.position(backend.data) + np.array([0.08, 0.1, -0.06])
    rotation = exponential(np.array([0.2, -0.1, 0.5])) @ backend.arm.rotation(backend.data)
    for _ in range(25):
        backend.step(backend.simulation.action_towards(position, rotation=rotation))
    np.testing.assert_allclose(backend.arm.position(backend.data), position, atol=5e-4)
    assert np.linalg.norm(logarithm(backend.arm.rotation(backend.data) @ rotation.T)) < 5e-3


def test_axes_that_actions_do_not_move_are_left_out():
    backend = reach("z+yaw+gripper")
    assert backend.spec.action.names == ("z", "yaw", "gripper")
    turned = exponential(np.array([0.0, 0.3, 0.1])) @ backend.arm.rotation(backend.data)
    position = backend.arm.position(backend.data)
    action = backend.simulation.action_towards(position + np.array([1.0, 1.0, 0.01]), rotation=turned, gripper=1.0)
    np.testing.assert_allclose(action, [0.2, 0.5, 1.0], atol=0.02)
    assert reach("xyz").simulation.action_towards(position).shape == (3,)

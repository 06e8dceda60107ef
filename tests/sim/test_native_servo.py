"""The control period in C++ against the controller that defines it."""

import numpy as np
import pytest

from robo_rl.sim import TASKS, make_backend, native
from robo_rl.sim.config import ControllerConfig, RandomisationConfig

needs_native = pytest.mark.skipif(not native.available()[0], reason=native.available()[1])


def in_python(backend):
    """The same backend with ticks in Python."""
    backend.simulation.servo = None
    return backend


@needs_native
@pytest.mark.parametrize("task", [name for name in TASKS if name != "drive"])
def test_states_are_those_of_the_controller_in_python(task):
    """Over one period to rounding; contacts make any two computations part over long times."""
    native, reference = make_backend(task), in_python(make_backend(task))
    assert native.simulation.servo is not None
    rng = np.random.default_rng(0)
    step = native.reset(3)
    reference.reset(3)
    for _ in range(12):
        assert not step.ended
        np.testing.assert_array_equal(native.data.qpos, reference.data.qpos)
        action = rng.uniform(-1, 1, native.spec.action.shape).astype(np.float32)
        step = native.step(action)
        expected = reference.step(action)
        np.testing.assert_allclose(native.data.qpos, reference.data.qpos, rtol=0, atol=1e-8)
        np.testing.assert_allclose(native.data.ctrl, reference.data.ctrl, rtol=0, atol=1e-4)
        np.testing.assert_allclose(step.observation["state"], expected.observation["state"], rtol=1e-3, atol=1e-3)
        copy_state(native, reference)


@needs_native
def test_actions_come_late_alike():
    """With latency an action comes after some ticks, here as there."""
    late = RandomisationConfig(latency=0.08)
    native, reference = make_backend("reach", randomisation=late), in_python(make_backend("reach", randomisation=late))
    action = np.ones(native.spec.action.shape, np.float32)
    native.reset(5)
    reference.reset(5)
    assert native.simulation.late_ticks == reference.simulation.late_ticks > 0
    native.step(action)
    reference.step(action)
    np.testing.assert_allclose(native.data.qpos, reference.data.qpos, rtol=0, atol=1e-9)


def test_joint_control_is_in_python():
    """Only the end-effector controller has a native counterpart; the other one works without."""
    backend = make_backend("reach", controller=ControllerConfig(action_space="joint_delta"))
    assert backend.simulation.servo is None
    backend.reset(0)
    backend.step(np.zeros(backend.spec.action.shape, np.float32))


def test_without_a_compiler_ticks_are_in_python(monkeypatch):
    monkeypatch.setattr(native, "available", lambda: (False, "no C++ compiler found"))
    backend = make_backend("reach")
    assert backend.simulation.servo is None
    backend.reset(0)
    backend.step(np.zeros(backend.spec.action.shape, np.float32))


def copy_state(source, target):
    """Give ``target`` the state of ``source``, controller and solver included, so that rounding does not add up."""
    import mujoco

    spec = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(source.model, spec))
    mujoco.mj_getState(source.model, source.data, state, spec)
    mujoco.mj_setState(target.model, target.data, state, spec)
    mujoco.mj_forward(source.model, source.data)
    mujoco.mj_forward(target.model, target.data)
    target.controller._previous[:] = source.controller._previous
    target.controller.reference_position[:] = source.controller.reference_position
    target.controller.reference_quaternion[:] = source.controller.reference_quaternion

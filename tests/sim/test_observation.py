"""The elements of ``state`` against finite differences and known forces."""

import mujoco
import numpy as np
import pytest

from robo_rl.sim import ArmBackend, make_backend
from robo_rl.sim.config import ArmConfig
from robo_rl.sim.observation import flatten, object_spec


@pytest.fixture(scope="module")
def backend() -> ArmBackend:
    return make_backend("pick_cube", max_episode_steps=1000)


def group(backend: ArmBackend, state: np.ndarray, prefix: str, count: int) -> np.ndarray:
    names = backend.spec.observation["state"].names
    start = next(index for index, name in enumerate(names) if name.startswith(prefix))
    return state[start : start + count].astype(float)


def hold(backend: ArmBackend, seconds: float) -> None:
    """Keep the controller's reference until everything is at rest."""
    for _ in range(round(seconds / backend.model.opt.timestep)):
        mujoco.mj_step1(backend.model, backend.data)
        backend.controller.tick(backend.data)
        mujoco.mj_step2(backend.model, backend.data)
    mujoco.mj_forward(backend.model, backend.data)


def test_names_and_order(backend):
    names = backend.spec.observation["state"].names
    assert names[:2] == ("joint1_position", "joint2_position")
    assert names[7] == "joint1_velocity"
    assert names[14:23] == (
        "end_effector_x", "end_effector_y", "end_effector_z",
        "end_effector_r11", "end_effector_r21", "end_effector_r31",
        "end_effector_r12", "end_effector_r22", "end_effector_r32",
    )  # fmt: skip
    assert names[-1] == "gripper_opening"
    assert len(names) == sum(backend.arm.groups.values()) == 36


def test_pose_is_the_end_effectors(backend):
    state = backend.reset(0).observation["state"]
    site = backend.data.site("end_effector")
    np.testing.assert_allclose(group(backend, state, "end_effector_x", 3), site.xpos, atol=1e-6)
    columns = group(backend, state, "end_effector_r11", 6)
    rotation = site.xmat.reshape(3, 3)
    np.testing.assert_allclose(columns, np.concatenate([rotation[:, 0], rotation[:, 1]]), atol=1e-6)


def test_twist_is_the_derivative_of_the_pose(backend):
    backend.reset(0)
    for _ in range(3):
        backend.step(np.array([1.0, -0.6, 0.4, -1.0], dtype=np.float32))
    model, data = backend.model, backend.data
    data.qvel[:7] += [0.3, -0.2, 0.4, 0.1, -0.5, 0.6, 0.9]
    mujoco.mj_forward(model, data)
    state = backend.arm.read(data)
    position, rotation = backend.arm.position(data), backend.arm.rotation(data)
    dt = 1e-6
    other = mujoco.MjData(model)
    other.qpos[:] = data.qpos
    mujoco.mj_integratePos(model, other.qpos, data.qvel, dt)
    mujoco.mj_kinematics(model, other)
    linear = (backend.arm.position(other) - position) / dt
    spin = (backend.arm.rotation(other) - rotation) @ rotation.T / dt
    np.testing.assert_allclose(group(backend, state, "end_effector_vx", 3), linear, atol=1e-4)
    np.testing.assert_allclose(
        group(backend, state, "end_effector_wx", 3), [spin[2, 1], spin[0, 2], spin[1, 0]], atol=1e-4
    )


@pytest.mark.parametrize("force", [(5.0, 0.0, 0.0), (0.0, -3.0, 2.0), (1.0, 2.0, -4.0)])
def test_wrist_wrench_is_what_the_world_exerts_on_the_hand(backend, force):
    """A known force and torque on the hand's centre of mass is read in the wrist's frame; nothing without it."""
    torque = np.array([0.1, -0.2, 0.3])
    hand = backend.model.body("hand").id
    backend.reset(0)
    hold(backend, 1.0)
    rest = backend.arm.read(backend.data)
    np.testing.assert_allclose(group(backend, rest, "wrist_force_x", 3), 0.0, atol=0.01)
    np.testing.assert_allclose(group(backend, rest, "wrist_torque_x", 3), 0.0, atol=0.01)

    backend.data.xfrc_applied[hand] = (*force, *torque)
    hold(backend, 1.5)
    state = backend.arm.read(backend.data)
    wrist = backend.data.site("wrist")
    frame = wrist.xmat.reshape(3, 3)
    lever = backend.data.xipos[hand] - wrist.xpos
    np.testing.assert_allclose(group(backend, state, "wrist_force_x", 3), frame.T @ np.array(force), atol=0.01)
    expected = frame.T @ (torque + np.cross(lever, force))
    np.testing.assert_allclose(group(backend, state, "wrist_torque_x", 3), expected, atol=0.01)


def test_wrist_wrench_is_the_mean_of_the_control_period(backend, monkeypatch):
    """An impact of one physics step is not taken for the force of the whole period."""
    monkeypatch.setattr(backend.simulation, "servo", None)  # its ticks are in Python then and can be watched
    backend.reset(0)
    hold(backend, 1.0)
    readings = []
    step = mujoco.mj_step2

    def record(model, data):
        step(model, data)
        readings.append(data.sensordata[backend.arm.wrench_addresses].copy())

    monkeypatch.setattr(mujoco, "mj_step2", record)
    backend.data.xfrc_applied[backend.model.body("hand").id, 0] = 50.0
    backend.step(np.zeros(backend.spec.action.shape, np.float32))
    assert len(readings) == backend.config.ticks
    assert np.ptp([reading[0] for reading in readings]) > 1.0
    np.testing.assert_allclose(backend.data.sensordata[backend.arm.wrench_addresses], np.mean(readings, axis=0))


def test_gripper_opening(backend):
    assert backend.reset(0).observation["state"][-1] == 1.0
    for _ in range(10):
        step = backend.step(np.array([0, 0, 0, 1], dtype=np.float32))
    assert step.observation["state"][-1] == pytest.approx(0.0, abs=0.01)
    for _ in range(10):
        step = backend.step(np.array([0, 0, 0, 0], dtype=np.float32))
    assert step.observation["state"][-1] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("opening", [0.0, 0.25])
def test_the_gripper_keeps_its_home_opening_where_actions_do_not_move_it(opening):
    backend = make_backend("reach", arm=ArmConfig(home_opening=opening))
    assert backend.reset(0).observation["state"][-1] == pytest.approx(opening, abs=1e-6)
    for _ in range(3):
        step = backend.step(np.zeros(3, dtype=np.float32))
    assert step.observation["state"][-1] == pytest.approx(opening, abs=0.01)


def test_object_vectors_are_joined_and_named():
    state = {"cube": np.array([1.0, 2.0, 3.0]), "angle": np.array([4.0]), "pair": np.array([5.0, 6.0])}
    assert object_spec(state).names == ("cube_x", "cube_y", "cube_z", "angle", "pair_0", "pair_1")
    np.testing.assert_array_equal(flatten(state), [1, 2, 3, 4, 5, 6])

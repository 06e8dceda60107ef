"""plug_insert: the estimate and the force, success, the grip, the expert."""

import mujoco
import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim import make_backend
from robo_rl.sim.tasks.plug_model import PLUG_BODY, TIP


@pytest.fixture(scope="module")
def backend():
    backend = make_backend("plug_insert")
    yield backend
    backend.close()


def body(backend, name):
    """Return position (3,) [m] and yaw [rad] of a mocap body."""
    number = backend.model.body(name).mocapid[0]
    quaternion = backend.data.mocap_quat[number]
    return backend.data.mocap_pos[number].copy(), 2 * np.arctan2(quaternion[3], quaternion[0])


def test_the_estimate_is_wrong_within_its_bounds(backend):
    errors, turns = [], []
    for seed in range(60):
        backend.reset(seed)
        (mouth, yaw), (estimate, estimated_yaw) = body(backend, "socket"), body(backend, "socket_estimate")
        assert (np.abs(mouth - (0.5, 0.0, 0.04)) <= (0.02, 0.02, 0.01)).all() and abs(yaw) <= 0.15
        errors.append(np.abs(estimate - mouth))
        turns.append(abs(estimated_yaw - yaw))
    largest = np.max(errors, axis=0)
    assert (largest <= 0.005).all() and (largest > 0.004).all()
    assert 0.04 < max(turns) <= 0.05


def test_the_policy_sees_the_estimate_and_the_force(backend):
    """A socket that is moved without its estimate changes neither the object state nor the expert's action."""
    step = backend.reset(2)
    assert {f"wrist_{kind}_{axis}" for kind in ("force", "torque") for axis in "xyz"} <= {
        *backend.spec.observation["state"].names
    }
    values = dict(zip(backend.spec.observation["object"].names, step.observation["object"], strict=True))
    hand = backend.arm.position(backend.data) + TIP * backend.arm.rotation(backend.data)[:, 2]
    away = [values[f"tip_to_estimate_{axis}"] for axis in "xyz"]
    np.testing.assert_allclose(hand + away, body(backend, "socket_estimate")[0], atol=1e-6)
    seen, action = backend.task.object_state(backend.data), backend.expert(0).act({})
    backend.data.mocap_pos[backend.model.body("socket").mocapid[0]] += 0.003
    mujoco.mj_forward(backend.model, backend.data)
    for name, value in backend.task.object_state(backend.data).items():
        np.testing.assert_array_equal(value, seen[name])
    np.testing.assert_array_equal(backend.expert(0).act({}), action)


@pytest.mark.parametrize(
    ("depth", "aside", "inserted"), [(-0.01, 0, False), (0.0119, 0, False), (0.0121, 0, True), (0.0121, 0.02, False)]
)
def test_success_is_in_the_true_socket_and_deep_enough(backend, depth, aside, inserted):
    backend.reset(3)
    data, start = backend.data, backend.model.joint(PLUG_BODY).qposadr[0]
    data.qpos[start : start + 7] = *(body(backend, "socket")[0] + (aside, 0, TIP - depth)), 1, 0, 0, 0
    mujoco.mj_forward(backend.model, data)
    assert backend.task.success(data) is inserted
    terms = backend.task.reward_terms(data)
    assert terms["aligned"] == pytest.approx(1.0 - np.tanh(50 * aside))
    assert terms["inserted"] == pytest.approx(0.0 if aside or depth < 0 else min(1.0, depth / 0.012))


def play(backend, seed):
    """Return success of the expert, the largest force [N], and the deepest contacts of socket and pads [m]."""
    step, expert = backend.reset(seed), backend.expert(seed)
    force = socket = pads = 0.0
    while not step.ended:
        step = backend.step(expert.act(step.observation))
        force = max(force, float(np.linalg.norm(backend.arm.wrench(backend.data)[0])))
        for contact in backend.data.contact:
            names = [backend.model.geom(int(geom)).name for geom in contact.geom]
            if any(name.startswith("socket_") for name in names):
                socket = max(socket, -contact.dist)
            if {"pad1", "pad2"} & {*names}:
                pads = max(pads, -contact.dist)
    return bool(step.success), force, socket, pads


def slip(backend):
    """Return the distance of the plug from its initial position in the hand [m]."""
    return float(np.linalg.norm(backend.data.body(PLUG_BODY).xpos - backend.arm.position(backend.data)))


@pytest.mark.parametrize("seed", range(5))
def test_the_expert_finds_the_socket_gently_and_holds_the_plug(backend, seed):
    success, force, socket, pads = play(backend, seed)
    assert success
    assert force < 0.5 * backend.config.arm.force_limit
    assert socket < 3e-5 and pads < 1e-4
    assert slip(backend) < 5e-4


def test_an_expert_that_is_reset_continues_from_the_search_and_from_the_socket(backend):
    step, expert = backend.reset(1), backend.expert(1)
    depths = []
    while not step.ended:
        step = backend.step(expert.act(step.observation))
        depths.append(backend.task.depth(backend.data))
        if len(depths) == 25 or 0.003 < depths[-1] < 0.008:
            expert.reset()
    assert step.success and max(depths[:25]) < 0.001


def test_the_search_returns_to_where_the_chamfer_was_felt(backend):
    """A plug that is pulled out of the chamfer is inserted soon after."""
    step, expert = backend.reset(1), backend.expert(1)
    while backend.task.depth(backend.data) < 0.0005:
        step = backend.step(expert.act(step.observation))
    for _ in range(2):
        expert.act(step.observation)
        step = backend.step(np.array([1, 0, 1, 0], np.float32))
    assert backend.task.depth(backend.data) == 0.0
    for _ in range(40):
        if not step.ended:
            step = backend.step(expert.act(step.observation))
    assert step.success


def test_the_search_is_not_misled_by_a_plug_that_creeps_in_the_hand(backend):
    """Pressed for 10 s, the plug moves in the hand by more than the depth at which it counts as in the chamfer."""
    step, expert = backend.reset(1), backend.expert(1)
    while np.linalg.norm(backend.arm.wrench(backend.data)[0]) < 1.5:
        step = backend.step(expert.act(step.observation))
    for _ in range(100):
        expert.act(step.observation)
        step = backend.step(np.array([0, 0, -0.8, 0], np.float32))
    assert slip(backend) > 1.5e-4 and not step.ended
    while not step.ended:
        step = backend.step(expert.act(step.observation))
    assert step.success


def test_pressing_at_the_estimate_is_not_enough(backend):
    step, task = backend.reset(1), backend.task
    for _ in range(60):
        away, turn = task.tip_to_estimate(backend.data), task.yaw_to_estimate(backend.data)
        action = [*away[:2] / 0.003, -float(np.hypot(away[0], away[1]) < 0.0005), turn / 0.04]
        step = backend.step(np.clip(action, -1, 1).astype(np.float32))
    assert not step.ended and backend.task.depth(backend.data) < 0.001
    assert np.linalg.norm(backend.arm.wrench(backend.data)[0]) > 2.0


def test_random_actions_keep_physics_stable(backend):
    rng = np.random.default_rng(0)
    for seed in range(2):
        step = backend.reset(seed)
        for count in range(60):
            if count % 6 == 0:  # long enough in one direction to press on the socket
                action = np.clip(rng.uniform(-1, 1, 4) - (0, 0, 0.5, 0), -1, 1).astype(np.float32)
            step = backend.step(action)
            assert np.isfinite(step.observation["state"]).all()
    assert not backend.data.warning.number.any()
    assert slip(backend) < 2e-3


def test_an_episode_is_reproduced_by_its_seed(backend):
    first = [backend.reset(seed).observation["object"][:3] for seed in (4, 5, 4)]
    np.testing.assert_array_equal(first[0], first[2])
    assert (first[0] != first[1]).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"clearance": 0.0}, "clearance must be in [0.0002, 0.003], got 0.0"),
        ({"pose_error": 0.02}, "pose_error must be in [0, 0.008], got 0.02"),
        ({"yaw_error": -0.1}, "yaw_error must be in [0, 0.06], got -0.1"),
        ({"depth": 0.02}, "depth must be in [0.005, 0.014], got 0.02"),
        ({"yaw_range": 1.0}, "yaw_range must be in [0, 0.5], got 1.0"),
        (
            {"position_range": (0.02, 0.02)},
            "position_range must be 3 values from 0 to at most (0.05, 0.05, 0.01), got (0.02, 0.02)",
        ),
    ],
)
def test_wrong_configurations_are_refused(values, message):
    with pytest.raises(ConfigError) as caught:
        make_backend("plug_insert", **values)
    assert str(caught.value) == message

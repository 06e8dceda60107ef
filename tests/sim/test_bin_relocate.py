"""bin_relocate: where the cube is by ray casting, success in physics, episodes with and without reset, the expert."""

import mujoco
import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim import ArmBackend, make_backend
from robo_rl.sim.tasks import bin_relocate
from robo_rl.sim.tasks.bin_relocate import BinRelocate

from ..rigs.experts import play_expert

STILL = np.array([0, 0, 0, -1], dtype=np.float32)


def bins(**values) -> tuple[ArmBackend, BinRelocate]:
    backend = make_backend("bin_relocate", **values)
    assert isinstance(backend.task, BinRelocate)
    return backend, backend.task


def put_cube(backend: ArmBackend, position, quaternion=(1, 0, 0, 0), velocity=(0, 0, 0)) -> None:
    joint = backend.model.joint("cube")
    backend.data.qpos[joint.qposadr[0] : joint.qposadr[0] + 7] = (*position, *quaternion)
    backend.data.qvel[joint.dofadr[0] : joint.dofadr[0] + 3] = velocity
    mujoco.mj_forward(backend.model, backend.data)


def cube_pose(backend: ArmBackend) -> np.ndarray:
    start = backend.model.joint("cube").qposadr[0]
    return backend.data.qpos[start : start + 7].copy()


def test_the_bin_of_the_cube_is_the_floor_below_it():
    backend, task = bins()
    model, data = backend.model, backend.data
    floors = {model.geom(f"bin_floor{number}").id: number for number in (0, 1)}
    groups = np.array([1, 0, 0, 0, 0, 0], dtype=np.uint8)  # table and bins; not the arm
    rng = np.random.default_rng(0)
    hit = np.zeros(1, dtype=np.int32)
    seen = []
    for _ in range(400):
        position = rng.uniform((0.36, -0.27, 0.03), (0.64, 0.27, 0.044))
        put_cube(backend, position)
        data.mocap_pos[:, 2] = -1.0  # the plate that marks the goal lies on a floor
        mujoco.mj_kinematics(model, data)
        cube = model.body("cube").id
        mujoco.mj_ray(model, data, position, np.array([0.0, 0, -1]), groups, 1, cube, hit)
        assert task.bin_of(data) == floors.get(int(hit[0])), position
        seen.append(task.bin_of(data))
    assert {0, 1, None} == set(seen)
    put_cube(backend, (0.5, 0.125, task.config.cube_size + 0.001))
    assert task.bin_of(data) is None


def test_success_is_a_cube_at_rest_in_the_goal_bin_that_no_finger_touches():
    backend, task = bins(direction="forward")
    backend.reset(0)
    half = task.config.cube_size / 2
    put_cube(backend, (*task.goal[:2], half))
    assert task.success(backend.data)
    put_cube(backend, (*task.goal[:2], half), velocity=(0.1, 0, 0))
    assert not task.success(backend.data)
    put_cube(backend, (0.5, bin_relocate.BIN_Y[0], half))
    assert not task.success(backend.data)
    put_cube(backend, (0.5, 0.4, half))
    assert not task.success(backend.data)


def test_a_held_cube_is_no_success():
    backend, task = bins(direction="forward", terminate_on_success=False, max_episode_steps=60)
    backend.reset(0)
    expert = backend.expert(0)
    over_goal = 0
    for _ in range(60):
        action = expert.act({})
        cube = backend.data.xpos[backend.model.body("cube").id]
        if task.reward_terms(backend.data)["grasped"] and abs(cube[1] - task.goal[1]) < 0.03:
            action[-1] = 1.0  # do not let go
            action[2] = -0.5
            over_goal += 1
        step = backend.step(action)
        assert not (step.success and step.rewards["grasped"])
    assert over_goal > 20
    assert task.bin_of(backend.data) == 1
    assert not step.success


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_expert(direction):
    backend, task = bins(direction=direction)
    lengths, successes = [], 0
    for seed in range(24):
        steps = play_expert(backend, seed)
        assert task.direction == (1 if direction == "forward" else -1)
        successes += bool(steps[-1].success)
        lengths.append(len(steps) - 1)
        if steps[-1].success:
            assert np.sign(cube_pose(backend)[1]) == task.direction
    assert successes >= 0.95 * 24
    assert np.mean(lengths) < 40


def test_the_expert_looks_at_the_state_alone():
    backend, _ = bins()
    steps = play_expert(backend, 3)
    # A new expert in the middle of the episode goes on as the old one.
    backend.reset(3)
    for step in steps[1:]:
        backend.step(backend.expert(1).act({}))
        np.testing.assert_array_equal(backend.arm.read(backend.data).astype(np.float32), step.observation["state"])


def test_random_direction_is_seen_and_comes_both_ways():
    backend, task = bins()
    names = backend.spec.observation["object"].names
    seen = set()
    for seed in range(12):
        values = dict(zip(names, backend.reset(seed).observation["object"], strict=True))
        seen.add(task.direction)
        assert values["direction"] == task.direction
        position = cube_pose(backend)[:3]
        assert np.sign(position[1]) == -task.direction
        goal = [position[0] + values["cube_to_goal_x"], position[1] + values["cube_to_goal_y"]]
        np.testing.assert_allclose(goal, [0.5, 0.125 * task.direction], atol=1e-6)
        np.testing.assert_allclose(backend.data.mocap_pos[0, :2], goal, atol=1e-6)
        hand = position - [values[f"to_cube_{axis}"] for axis in "xyz"]
        np.testing.assert_allclose(hand, backend.arm.position(backend.data), atol=1e-6)
    assert seen == {-1, 1}


def test_the_cubes_attitude_is_the_same_for_every_numbering_of_its_faces():
    backend, task = bins()
    yaw = 0.3
    base = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
    quarter = {
        "x": np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]]),
        "z": np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]),
    }
    for turns in ("", "x", "z", "xz", "zx", "xx", "xxz", "xzz"):
        rotation = base
        for axis in turns:
            rotation = rotation @ quarter[axis]
        quaternion = np.empty(4)
        mujoco.mju_mat2Quat(quaternion, rotation.ravel())
        put_cube(backend, (0.5, 0.125, 0.1), quaternion)
        state = task.object_state(backend.data)
        np.testing.assert_allclose(state["cube_turn"], [np.cos(4 * yaw), np.sin(4 * yaw)], atol=1e-9)
        np.testing.assert_allclose(state["cube_upright"], 1.0, atol=1e-9)


def test_without_a_seed_all_stays_and_the_direction_turns():
    backend, task = bins(direction="forward")
    assert play_expert(backend, 0)[-1].success
    for episode in range(1, 4):
        left = cube_pose(backend)
        for _ in range(2):  # a reset that no step follows changes nothing
            step = backend.reset()
            np.testing.assert_array_equal(cube_pose(backend), left)
            assert task.direction == (-1) ** episode
            assert not step.success
            assert "placed" not in step.info
        expert = backend.expert(0)
        while not step.ended:
            step = backend.step(expert.act(step.observation))
        assert step.success


def test_a_failure_keeps_the_direction():
    backend, task = bins(direction="backward")
    backend.reset(0)
    for _ in range(2):
        backend.step(STILL)
        backend.reset()
        assert task.direction == -1


@pytest.mark.parametrize("place", [(0.5, 0.0, 0.022), (0.5, 0.125, 0.2), (0.7, 0.1, 0.022)])
def test_from_outside_the_bins_the_direction_stays(place):
    for direction, sign in (("forward", 1), ("backward", -1)):
        backend, task = bins(direction=direction)
        backend.reset(0)
        put_cube(backend, place)
        backend.reset()
        assert task.direction == sign
        np.testing.assert_allclose(cube_pose(backend)[:3], place)


def test_with_a_seed_an_episode_depends_on_its_seed_alone():
    backend, _ = bins()
    first = play_expert(backend, 7)
    play_expert(backend, 8)
    second = play_expert(backend, 7)
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        for key in one.observation:
            np.testing.assert_array_equal(one.observation[key], other.observation[key])


def test_configuration_is_checked():
    with pytest.raises(ConfigError, match="direction: unknown value 'forwards'; did you mean 'forward'"):
        make_backend("bin_relocate", direction="forwards")
    with pytest.raises(ConfigError, match="start_range must be 2 values"):
        make_backend("bin_relocate", start_range=(0.2, 0.0))
    with pytest.raises(ConfigError, match="cube_size must be in"):
        make_backend("bin_relocate", cube_size=0.1)

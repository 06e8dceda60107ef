"""stack_cubes: where cubes begin, what counts as stacked in physics, the expert."""

import itertools

import mujoco
import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim import ArmBackend, make_backend
from robo_rl.sim.tasks.stack_cubes import StackCubes

from ..rigs.experts import play_expert

OPEN = np.array([0, 0, 0, -1], dtype=np.float32)


def stack(**values) -> tuple[ArmBackend, StackCubes]:
    backend = make_backend("stack_cubes", **values)
    assert isinstance(backend.task, StackCubes)
    return backend, backend.task


def put(backend: ArmBackend, *positions, velocity=(0, 0, 0)) -> None:
    """Put the cubes at positions, in order; all have the velocity."""
    for number, position in enumerate(positions):
        joint = backend.model.joint(f"cube_{number}")
        backend.data.qpos[joint.qposadr[0] : joint.qposadr[0] + 7] = (*position, 1, 0, 0, 0)
        backend.data.qvel[joint.dofadr[0] : joint.dofadr[0] + 6] = (*velocity, 0, 0, 0)
    mujoco.mj_forward(backend.model, backend.data)


def tower(size: float, *numbers: int, offset: float = 0.0) -> list[tuple[float, float, float]]:
    """Return positions of three cubes, of which ``numbers`` stand on one another from the table up."""
    places = {0: (0.5, -0.2, size / 2), 1: (0.5, 0.0, size / 2), 2: (0.5, 0.2, size / 2)}
    x, y, _ = places[numbers[0]]
    for level, number in enumerate(numbers):
        places[number] = (x + offset * level, y, size * (level + 0.5))
    return [places[number] for number in range(3)]


@pytest.mark.parametrize("cubes", [2, 3, 4])
def test_cubes_begin_apart_and_within_the_area(cubes):
    backend, task = stack(cubes=cubes, area_size=(0.24, 0.4))
    for seed in range(30):
        backend.reset(seed)
        places = [backend.data.body(f"cube_{number}").xpos[:2].copy() for number in range(cubes)]
        for one, other in itertools.combinations(places, 2):
            assert np.linalg.norm(one - other) >= task.config.distance - 1e-3
        assert (np.abs(np.array(places) - task.config.area_centre) <= np.array(task.config.area_size) / 2 + 1e-3).all()


def test_what_counts_as_stacked():
    backend, task = stack()
    backend.reset(0)
    size = task.config.cube_size
    for numbers, stacked in (((0,), 0), ((0, 1), 1), ((0, 1, 2), 2), ((1, 0), 0), ((0, 2), 0), ((2, 1, 0), 0)):
        put(backend, *tower(size, *numbers))
        assert task.stacked(backend.data) == stacked, numbers
        assert task.success(backend.data) == (stacked == 2)
        assert task.reward_terms(backend.data)["stacked"] == stacked / 2
    put(backend, *tower(size, 0, 1, 2), velocity=(0.1, 0, 0))
    assert not task.success(backend.data)
    put(backend, *tower(size, 0, 1, 2, offset=(task.config.tolerance + 0.02) * size))
    assert task.stacked(backend.data) == 0
    lifted = tower(size, 0, 1, 2)
    lifted[2] = (*lifted[2][:2], lifted[2][2] + 0.15 * size)
    put(backend, *lifted)
    assert task.stacked(backend.data) == 1


def test_a_tower_stands_by_itself_and_a_leaning_one_falls():
    backend, task = stack(terminate_on_success=False)
    size = task.config.cube_size
    for offset, stands in ((0.2 * size, True), (0.7 * size, False)):
        backend.reset(0)
        put(backend, *tower(size, 0, 1, 2, offset=offset))
        for _ in range(10):
            step = backend.step(OPEN)
        assert step.success == stands


def test_a_held_cube_is_not_stacked():
    backend, task = stack(cubes=2, terminate_on_success=False)
    backend.reset(0)
    expert = backend.expert(0)
    held_in_place = 0
    for _ in range(60):
        action = expert.act({})
        away = task.object_state(backend.data)["cube_1_to_place"]
        if task.reward_terms(backend.data)["grasped"] and np.linalg.norm(away) < 0.01:
            action[-1] = 1.0  # do not let go
            held_in_place += 1
        step = backend.step(action)
        assert not (step.success and step.rewards["grasped"])
    assert held_in_place > 10
    assert not step.success and step.rewards["stacked"] == 0


@pytest.mark.parametrize(("cubes", "most"), [(2, 35), (3, 60), (4, 95)])
def test_expert(cubes, most):
    backend, _ = stack(cubes=cubes)
    ends = [play_expert(backend, seed) for seed in range(12)]
    assert sum(bool(steps[-1].success) for steps in ends) >= 11
    assert np.mean([len(steps) - 1 for steps in ends]) < most


def test_the_expert_looks_at_the_state_alone():
    backend, _ = stack()
    steps = play_expert(backend, 3)
    backend.reset(3)
    for step in steps[1:]:
        backend.step(backend.expert(1).act({}))
        np.testing.assert_array_equal(backend.arm.read(backend.data).astype(np.float32), step.observation["state"])


def test_the_observation_leads_to_the_cubes_and_their_places():
    backend, task = stack()
    names = backend.spec.observation["object"].names
    values = dict(zip(names, backend.reset(1).observation["object"], strict=True))
    hand = backend.arm.position(backend.data)
    places = [backend.data.body(f"cube_{number}").xpos for number in range(3)]
    for number, place in enumerate(places):
        away = [values[f"to_cube_{number}_{axis}"] for axis in "xyz"]
        np.testing.assert_allclose(hand + away, place, atol=1e-6)
        if number:
            away = [values[f"cube_{number}_to_place_{axis}"] for axis in "xyz"]
            np.testing.assert_allclose(place + away, places[number - 1] + [0, 0, task.config.cube_size], atol=1e-6)


def test_configuration_is_checked():
    with pytest.raises(ConfigError, match="cubes must be in"):
        make_backend("stack_cubes", cubes=5)
    with pytest.raises(ConfigError, match="area_size must be large enough for 4 cubes"):
        make_backend("stack_cubes", cubes=4, area_size=(0.02, 0.02))
    with pytest.raises(ConfigError, match="tolerance must be in"):
        make_backend("stack_cubes", tolerance=0.5)

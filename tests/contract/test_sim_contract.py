"""What every simulated task promises. A task that is added to ``TASKS`` is tested here without further ado."""

import json
from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest

from robo_rl.core import EnvSpec, SpecError, Step
from robo_rl.sim import ENVIRONMENTS, TASKS, ArmBackend, make_backend, register_environments
from robo_rl.sim.config import RandomisationConfig

EXPERT_EPISODES = 20
"""Of each task."""


@pytest.fixture(scope="module", params=sorted(TASKS))
def task(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def backend(task) -> Iterator[ArmBackend]:
    backend = make_backend(task)
    yield backend
    backend.close()


def random_actions(spec: EnvSpec, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, *spec.action.shape)).astype(np.float32)


def play(backend: ArmBackend, seed: int, count: int) -> list[Step]:
    steps = [backend.reset(seed)]
    for action in random_actions(backend.spec, count, seed):
        if steps[-1].ended:
            break
        steps.append(backend.step(action))
    return steps


def assert_same(first: list[Step], second: list[Step]) -> None:
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert one.observation.keys() == other.observation.keys()
        for key in one.observation:
            np.testing.assert_array_equal(one.observation[key], other.observation[key])
        assert one.rewards == other.rewards
        assert (one.terminated, one.truncated, one.success) == (other.terminated, other.truncated, other.success)
        assert one.stamp_ns == other.stamp_ns


def test_observations_and_rewards_fit_the_spec(backend):
    spec = backend.spec
    assert spec.task in TASKS
    assert spec.reward_terms[0] == "success"
    for step in play(backend, 0, 10):
        spec.check_observation(step.observation)
        assert tuple(step.rewards) == spec.reward_terms
        for name, value in step.rewards.items():
            assert isinstance(value, float)
            assert 0.0 <= value <= 1.0, name
    for array in (spec.action, *spec.observation.values()):
        assert len(array.names) == array.shape[0], "every element has a name"
        assert len(set(array.names)) == len(array.names)


def test_the_spec_survives_json(backend):
    read = EnvSpec.from_json(json.loads(json.dumps(backend.spec.to_json())))
    assert backend.spec.differences(read) == []
    assert read.to_json() == backend.spec.to_json()


def test_rewards_are_zero_after_reset(backend):
    step = backend.reset(0)
    assert set(step.rewards.values()) == {0.0}
    assert not step.ended
    assert not step.success, "no episode may begin solved"


def test_the_same_seed_gives_the_same_episode(task, backend):
    """Bit for bit: on another backend, and after other episodes on this one."""
    expected = play(backend, 5, 15)
    play(backend, 6, 7)
    backend.reset(7)
    assert_same(play(backend, 5, 15), expected)
    other = make_backend(task)
    assert_same(play(other, 5, 15), expected)
    other.close()


def test_other_seeds_give_other_episodes(backend):
    first, second = (backend.reset(seed).observation for seed in (1, 2))
    assert not np.array_equal(first["state"], second["state"])
    assert not np.array_equal(first["object"], second["object"])


def test_without_a_seed_an_episode_begins_where_the_last_one_ended(task):
    options = {"autonomous": True} if task == "drive" else {}
    backend, other = (make_backend(task, **options) for _ in range(2))
    assert backend.reset(3).info == {"placed": True}
    actions = random_actions(backend.spec, 6)
    for action in actions[:3]:
        backend.step(action)
    positions = backend.data.qpos.copy()
    at_the_end = backend.world()
    first = backend.reset()
    np.testing.assert_array_equal(backend.data.qpos, positions)
    assert first.info == {}
    assert first.stamp_ns == 0
    at_the_beginning = backend.world()
    went_on = [backend.step(action) for action in actions[3:]]
    for world in (at_the_end, at_the_beginning):
        assert_same([first, *went_on], [other.restore(world), *(other.step(action) for action in actions[3:])])


def test_a_world_with_random_draws_is_not_told():
    assert make_backend("reach", randomisation=RandomisationConfig(mass=0.1)).world() is None


def test_the_time_limit_truncates_and_nothing_resets_by_itself(task):
    backend = make_backend(task, max_episode_steps=4)
    steps = play(backend, 0, 10)
    assert [step.ended for step in steps] == [False] * 4 + [True]
    assert (steps[-1].terminated, steps[-1].truncated) == (False, True)
    # The last observation is the true one: the state after the last action, which a longer episode goes through too.
    longer = play(make_backend(task), 0, 4)
    for key in steps[-1].observation:
        np.testing.assert_array_equal(steps[-1].observation[key], longer[-1].observation[key])
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        backend.step(random_actions(backend.spec, 1)[0])
    backend.reset(0)
    backend.stop("test")
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        backend.step(random_actions(backend.spec, 1)[0])


def test_a_step_before_the_first_reset_is_refused(task):
    backend = make_backend(task)
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        backend.step(random_actions(backend.spec, 1)[0])


def test_wrong_actions_are_refused_and_change_nothing(backend):
    size = backend.spec.action.shape[0]
    name = backend.spec.action.names[0]
    backend.reset(3)
    before = backend.data.qpos.copy()
    wrong = [
        (np.zeros(size + 1, np.float32), rf"action: expected a float32 array of shape \({size},\)"),
        (np.zeros(size, np.float64), "got a float64 array"),
        (np.full(size, np.nan, np.float32), rf"action: expected finite values, got nan at index \[0\] \({name}\)"),
        (np.full(size, 1.5, np.float32), r"action: expected values in \[-1.0, 1.0\], got 1.5"),
    ]
    for action, message in wrong:
        with pytest.raises(SpecError, match=message):
            backend.step(action)
    np.testing.assert_array_equal(backend.data.qpos, before)
    backend.step(np.zeros(size, np.float32))


def solve(backend: ArmBackend, seed: int) -> list[Step]:
    steps = [backend.reset(seed)]
    expert = backend.expert(seed)
    expert.reset()
    while not steps[-1].ended:
        action = expert.act(steps[-1].observation)
        backend.spec.action.check("the expert's action", action)
        steps.append(backend.step(action))
    return steps


def test_the_expert_succeeds_and_success_terminates(backend):
    count = EXPERT_EPISODES if backend.spec.max_episode_steps <= 100 else 5  # laps of the car take long
    episodes = [solve(backend, seed) for seed in range(count)]
    solved = [steps for steps in episodes if steps[-1].success]
    assert len(solved) >= 0.95 * count
    for steps in solved:
        assert (steps[-1].terminated, steps[-1].truncated) == (True, False)
        assert steps[-1].rewards["success"] == 1.0
        assert all(step.rewards["success"] == 0.0 for step in steps[:-1])
        backend.spec.check_observation(steps[-1].observation)


def test_random_actions_do_not_solve_the_task(backend):
    assert not any(play(backend, seed, 20)[-1].success for seed in range(2))


def test_success_need_not_terminate(task):
    backend = make_backend(task, terminate_on_success=False)
    steps = solve(backend, 0)
    assert any(step.success for step in steps)
    assert (steps[-1].terminated, steps[-1].truncated) == (False, True)


def test_the_object_state_can_be_left_out(task):
    from robo_rl.sim.config import ObservationConfig

    backend = make_backend(task, observation=ObservationConfig(object=False))
    assert set(backend.spec.observation) == {"state"}
    backend.spec.check_observation(backend.reset(0).observation)


@pytest.mark.rendering
def test_images_fit_the_spec_and_show_the_scene(task):
    from robo_rl.sim.config import ObservationConfig

    cameras = TASKS[task].cameras
    view = ObservationConfig(cameras=cameras, width=48, height=32, picture_width=64, picture_height=40)
    backend = make_backend(task, observation=view)
    step = backend.reset(0)
    backend.spec.check_observation(step.observation)
    assert step.observation["images/front"].shape == (32, 48, 3)
    for image in (*(step.observation[f"images/{camera}"] for camera in cameras), backend.render()):
        assert image.dtype == np.uint8
        assert image.std() > 5, "a blank image"
    assert backend.render().shape == (40, 64, 3)
    backend.close()
    backend.close()


def test_every_task_is_registered_with_gymnasium():
    register_environments()
    assert set(TASKS) == set(ENVIRONMENTS)
    assert ENVIRONMENTS["pick_cube"] == "robo_rl/PickCube-v0"
    for name, environment_id in ENVIRONMENTS.items():
        assert gymnasium.registry[environment_id].kwargs == {"name": name}


def test_configurations_know_their_task(task):
    assert TASKS[task].config_class().name == task

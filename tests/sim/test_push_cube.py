"""push_cube: where cube and goal begin, what is observed and rewarded, success in physics, the expert."""

import math

import mujoco
import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim import ArmBackend, make_backend
from robo_rl.sim.tasks.push_cube import PushCube

from ..rigs.experts import play_expert


def table(**values) -> tuple[ArmBackend, PushCube]:
    backend = make_backend("push_cube", **values)
    assert isinstance(backend.task, PushCube)
    return backend, backend.task


def places(backend: ArmBackend) -> tuple[np.ndarray, np.ndarray]:
    """Return where cube and goal are, along the table."""
    return backend.data.body("cube").xpos[:2].copy(), backend.data.body("goal").xpos[:2].copy()


def put_cube(backend: ArmBackend, place) -> None:
    start = backend.model.joint("cube").qposadr[0]
    backend.data.qpos[start : start + 2] = place
    mujoco.mj_forward(backend.model, backend.data)


def test_cube_and_goal_begin_within_what_is_configured():
    backend, task = table(area_size=(0.1, 0.2), push_distance=(0.12, 0.15), push_angle=0.3)
    begins = []
    for seed in range(100):
        backend.reset(seed)
        cube, goal = places(backend)
        begins.append((*(cube - task.config.area_centre), *(goal - cube)))
    begun = np.array(begins)
    assert (np.abs(begun[:, :2]) <= (0.0501, 0.1001)).all()
    assert (np.abs(begun[:, :2]).max(0) > (0.04, 0.08)).all()
    distances, angles = np.hypot(begun[:, 2], begun[:, 3]), np.arctan2(begun[:, 3], begun[:, 2])
    assert 0.1199 <= distances.min() < 0.125 and 0.145 < distances.max() <= 0.1501
    assert -0.301 <= angles.min() < -0.25 and 0.25 < angles.max() <= 0.301


def test_it_observes_the_way_from_fingers_to_cube_and_on_to_the_goal():
    backend, task = table(cube_yaw=0.0)
    observed = backend.reset(3).observation["object"]
    cube, goal = places(backend)
    fingers = backend.data.site(task.config.arm.end_effector).xpos[:2]
    np.testing.assert_allclose(observed, (*(cube - fingers), *(goal - cube), 1, 0, 0), atol=1e-3)


def test_its_terms_are_1_where_the_fingers_are_behind_the_cube_and_where_the_cube_is_at_the_goal():
    backend, task = table()
    backend.reset(5)
    fingers = backend.data.site(task.config.arm.end_effector).xpos[:2]
    goal = places(backend)[1]
    way = (goal - fingers) / np.linalg.norm(goal - fingers)
    put_cube(backend, fingers + (task.config.cube_size / 2 + 0.02) * way)
    cube = places(backend)[0]
    terms = task.reward_terms(backend.data)
    assert terms["behind"] == pytest.approx(1.0, abs=1e-3)
    assert terms["at_goal"] == pytest.approx(1 - math.tanh(5 * math.dist(cube, goal)), abs=1e-6)
    put_cube(backend, goal)
    assert task.reward_terms(backend.data) == pytest.approx({"behind": 1.0, "at_goal": 1.0})


def test_success_is_a_cube_within_the_tolerance_of_the_goal():
    backend, task = table()
    backend.reset(0)
    goal = places(backend)[1]
    for share, solved in ((0.9, True), (1.1, False)):
        put_cube(backend, goal + share * task.config.tolerance * np.array([0.6, -0.8]))
        assert task.success(backend.data) is solved


def test_the_expert_pushes_it_there_and_lets_it_lie():
    """On the table all the time: nothing lifts it, and nobody carries it."""
    backend, task = table(terminate_on_success=False)
    ends = []
    for seed in range(20):
        steps = play_expert(backend, seed)
        ends.append(bool(steps[-1].success))
        assert backend.data.body("cube").xpos[2] == pytest.approx(task.config.cube_size / 2, abs=2e-3)
    assert np.mean(ends) >= 0.9


def test_fingers_that_miss_the_cube_leave_it_where_it_is():
    backend, _ = table()
    step = backend.reset(1)
    before = places(backend)[0]
    while not step.ended:
        step = backend.step(np.array([-1.0, 1.0], dtype=np.float32))
    np.testing.assert_allclose(places(backend)[0], before, atol=1e-3)
    assert not step.success and step.truncated


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cube_size": 0.2}, "cube_size"),
        ({"cube_colour": "pink"}, "cube_colour must be one of red, green, blue"),
        ({"push_distance": (0.2, 0.1)}, "push_distance"),
        ({"tolerance": 0.1}, "tolerance"),
        ({"area_size": (0.1,)}, "area_size"),
        ({"push_angle": 4.0}, "push_angle"),
    ],
)
def test_options_out_of_range_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        table(**values)

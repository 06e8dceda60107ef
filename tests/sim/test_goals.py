"""Other goals for steps of simulated tasks."""

import copy

import numpy as np
import pytest

from robo_rl.core import GoalTask
from robo_rl.sim import make_backend
from robo_rl.sim.config import ObservationConfig

KEYS = ("observation/object", "next_observation/object")


def episode(task: str, steps: int, **options: object):
    """Return a backend, rows of random steps, and the physics after the reset and after each step."""
    backend = make_backend(task, **options)
    rng = np.random.default_rng(1)
    observations, states, terms, ends = [backend.reset(4).observation["object"]], [copy.copy(backend.data)], [], []
    for _ in range(steps):
        step = backend.step(rng.uniform(-1, 1, backend.spec.action.shape).astype(np.float32))
        observations.append(step.observation["object"])
        states.append(copy.copy(backend.data))
        terms.append(step.rewards)
        ends.append((step.terminated, step.success))
    rows = {
        "observation/object": np.array(observations[:-1]),
        "next_observation/object": np.array(observations[1:]),
        "action": np.zeros((steps, 1), np.float32),
        "terminated": np.array([terminated for terminated, _ in ends]),
        "success": np.array([success for _, success in ends], np.int8),
        **{f"term/{name}": np.array([each[name] for each in terms], np.float32) for name in backend.spec.reward_terms},
    }
    return backend, rows, states


def achieved(backend, state) -> np.ndarray:
    """Return the position (3,) of what the task moves."""
    return state.site("end_effector").xpos if backend.config.name == "reach" else state.body("cube").xpos


@pytest.mark.parametrize("task", ["reach", "push_cube"])
@pytest.mark.parametrize("length", [1, 7, 12])
def test_rows_are_what_the_simulation_observes_and_rewards_with_that_goal(task: str, length: int) -> None:
    backend, rows, states = episode(task, 12, terminate_on_success=False)
    result = backend.relabel({name: values[:length] for name, values in rows.items()})
    goal = achieved(backend, states[length]).copy()
    size = 3 if task == "reach" else 2
    for number, state in enumerate(states[: length + 1]):
        state.mocap_pos[0][:size] = goal[:size]
        objects = np.concatenate(list(backend.task.object_state(state).values()))
        for key, row in zip(KEYS, (number, number - 1), strict=True):
            if 0 <= row < length:
                np.testing.assert_allclose(result[key][row], objects, atol=1e-5)
        if number:
            for name, value in backend.task.rewards(state).items():
                assert result[f"term/{name}"][number - 1] == pytest.approx(value, abs=1e-5), name
    assert result["term/success"][-1] == 1 and not result["terminated"].any()
    np.testing.assert_array_equal(rows["observation/object"], episode(task, 12, terminate_on_success=False)[1][KEYS[0]])


def test_rows_end_where_the_goal_is_achieved_first() -> None:
    backend, rows, _ = episode("push_cube", 10)  # the cube is not touched: it is at its goal from the start
    still = dict(rows)
    still["next_observation/object"] = rows["next_observation/object"].copy()
    slices = slice(2, 4)
    still["next_observation/object"][:, slices] = rows["observation/object"][0, slices]
    result = backend.relabel(still)
    assert len(result["action"]) == 1 and result["terminated"].all() and result["term/success"].all()


def test_an_end_that_had_nothing_to_do_with_the_goal_remains() -> None:
    backend, rows, _ = episode("reach", 10, terminate_on_success=False)
    fallen = rows | {"terminated": np.arange(10) == 4}
    result = backend.relabel(fallen)
    assert len(result["action"]) == 5 and result["terminated"].tolist() == [False] * 4 + [True]


def test_tasks_without_an_observed_goal_vector_have_no_other_goals() -> None:
    without = make_backend("pick_cube")
    assert isinstance(without, GoalTask) and without.relabel is None
    assert make_backend("push_cube", observation=ObservationConfig(object=False)).relabel is None

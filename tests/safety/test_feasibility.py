"""The feasibility value against the analytic reachable set of a double integrator, and the filter that uses it."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec, TurningState
from robo_rl.safety import compose, make_safe_backend
from robo_rl.safety.compose import make_filter_chain
from robo_rl.safety.config import FeasibilityFilterConfig, SafetyConfig, WorkspaceConfig
from robo_rl.safety.feasibility import FeasibilityConfig, FeasibilityModel
from robo_rl.safety.feasibility_filter import FeasibilityFilter, load_model, save_model

from ..rigs.safety_arms import arm, parts

PERIOD = 0.1
SPEC = EnvSpec(
    task="cart",
    observation={"state": ArraySpec((2,), names=("x", "v")), "images/front": ArraySpec((8, 8, 3), "uint8", 0, 255)},
    action=ArraySpec((1,), low=-1, high=1, names=("acceleration",)),
    action_space="acceleration",
    action_frame="base",
    control_rate=1 / PERIOD,
    max_episode_steps=None,
    reward_terms=(),
)
HIDDEN = FeasibilityConfig().hidden


def moved(states: np.ndarray, accelerations: np.ndarray) -> np.ndarray:
    """A cart of 1 kg, pushed by up to 1 N; it is to stay within 1 m."""
    x, v = states.T
    return np.stack([x + v * PERIOD + accelerations * PERIOD**2 / 2, v + accelerations * PERIOD], 1).astype(np.float32)


def can_stay(states: np.ndarray) -> np.ndarray:
    """Full braking, which takes v^2 / 2, ends before the wall that it goes to."""
    x, v = states.T
    return (np.abs(x) <= 1) & (np.abs(x + v * np.abs(v) / 2) <= 1)


@pytest.fixture(scope="module")
def model() -> FeasibilityModel:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rng, n = np.random.default_rng(0), 20_000
    states = rng.uniform((-1.3, -2), (1.3, 2), (n, 2)).astype(np.float32)
    actions = rng.uniform(-1, 1, (n, 1)).astype(np.float32)
    after = moved(states, actions[:, 0])
    h = np.abs(after[:, 0]) - 1
    made = FeasibilityModel(2, 1, HIDDEN)
    made.fit(states, actions, after, h, np.zeros(n, bool), FeasibilityConfig())
    torch.set_num_threads(threads)
    return made


def test_the_sign_of_the_value_is_that_of_the_analytic_reachable_set(model):
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 81), np.linspace(-1.8, 1.8, 81)), -1).reshape(-1, 2)
    feasible = can_stay(grid)
    assert 0.3 < feasible.mean() < 0.8
    agreement = ((model.value(grid.astype(np.float32)) <= 0) == feasible).mean()
    assert agreement >= 0.97, agreement


def test_what_ends_there_is_worth_what_it_breaks_and_no_more():
    # From everywhere the next state ends the episode, so Q is h itself, and nothing that would come after counts.
    rng = np.random.default_rng(1)
    states = rng.uniform(-1, 1, (2000, 1)).astype(np.float32)
    made = FeasibilityModel(1, 1, (32,))
    h = states[:, 0] - 0.25
    ended = np.ones(2000, bool)
    made.fit(states, np.zeros_like(states), states, h, ended, FeasibilityConfig(hidden=(32,), steps=1500))
    still = np.zeros((1, 1), np.float32)
    for probe in (-0.9, -0.3, 0.1, 0.4, 0.9):
        assert made.quality(np.array([probe], np.float32), still)[0] == pytest.approx(probe - 0.25, abs=0.1)


def drive(safety: FeasibilityFilter | None, states: np.ndarray, seed: int) -> tuple[int, int]:
    """Push carts at random from each of ``states``; return how many left, and how many actions were changed."""
    rng = np.random.default_rng(seed)
    left = changed = 0
    for state in states:
        if safety is not None:
            safety.reset()
        held = np.zeros(1, np.float32)
        for step in range(60):
            if step % 15 == 0:
                held = rng.choice([-1.0, 1.0], 1).astype(np.float32)
            action = held
            if safety is not None:
                action, verdict = safety({"state": state}, held, 0)
                assert verdict.changed == (action is not held)
                assert (np.abs(action) <= 1).all()
                changed += verdict.changed
            state = moved(state[None], action)[0]
            if abs(state[0]) > 1:
                left += 1
                break
    return left, changed


def test_the_filter_keeps_what_random_actions_break(model):
    rng = np.random.default_rng(2)
    states = rng.uniform((-0.7, -0.5), (0.7, 0.5), (25, 2)).astype(np.float32)
    assert can_stay(states).all()
    safety = FeasibilityFilter(
        model,
        TurningState(SPEC, None),
        64,
        0.05,
        lambda _, action: np.zeros_like(action),
        lambda _, action, factor: factor * action,
    )
    left, changed = drive(safety, states, seed=3)
    without, _ = drive(None, states, seed=3)
    assert without >= 20
    assert left <= 1, "of 25"
    assert changed < 0.7 * 25 * 60, "it lets through what is safe"


def test_a_saved_model_is_the_same_and_is_found_by_the_configuration(model, tmp_path):
    folder = tmp_path / "model"
    save_model(folder, model, SPEC, HIDDEN, {"keep": "x < 1"})
    again = load_model(folder, SPEC)
    states = np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32)
    np.testing.assert_array_equal(again.value(states), model.value(states))
    actions = np.linspace(-1, 1, 9, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(again.quality(states[0], actions), model.quality(states[0], actions))
    assert json.loads((folder / "card.json").read_text())["keep"] == "x < 1"
    chain = make_filter_chain(SPEC, None, SafetyConfig(feasibility=FeasibilityFilterConfig(str(folder))))
    ahead, away = np.ones(1, np.float32), -np.ones(1, np.float32)
    towards_the_wall = {"state": np.array([0.7, 0.7], np.float32)}
    executed, verdict = chain(towards_the_wall, ahead, 0)
    assert verdict.reasons == ("feasibility",)
    assert executed[0] < -0.3
    assert not chain(towards_the_wall, away, 0)[1].changed


class Forwards:
    """Stands in for a model: only actions whose first element is above 0.3 keep its constraint."""

    def quality(self, state, actions):
        return 0.3 - actions[:, 0]


def test_it_undoes_none_of_the_filters_that_guarantee_something(monkeypatch):
    monkeypatch.setattr(compose, "load_model", lambda folder, spec: Forwards())
    inner = arm()
    observation = dict(inner.reset(0).observation)
    names = inner.spec.observation["state"].names
    wall = float(observation["state"][names.index("end_effector_x")])
    config = SafetyConfig(
        feasibility=FeasibilityFilterConfig("a model"), workspace=WorkspaceConfig(high=(wall, 0.4, 0.6))
    )
    chain = make_filter_chain(inner.spec, inner.robot, config)
    action = np.array([0.2, 0, 0, 0.7], np.float32)
    executed, verdict = chain(observation, action, 0)
    assert verdict.reasons == ("feasibility", "workspace")
    assert executed[0] == pytest.approx(0, abs=1e-6)
    assert executed[-1] == action[-1], "the gripper keeps what it holds"

    executed, verdict = chain(observation, np.array([np.nan, 0, 0, 1], np.float32), 0)
    assert verdict.reasons == ("action_not_finite",)
    np.testing.assert_array_equal(executed, [0, 0, 0, action[-1]])

    pressed = observation | {"state": observation["state"].copy()}
    pressed["state"][names.index("wrist_force_z")] = 500.0
    executed, verdict = chain(pressed, action, 0)
    assert verdict.reasons == ("feasibility", "contact_stop")
    np.testing.assert_array_equal(executed, [0, 0, 0, action[-1]])


def test_what_is_to_stand_still_is_not_set_in_motion(monkeypatch):
    monkeypatch.setattr(compose, "load_model", lambda folder, spec: Forwards())
    inner = arm()
    backend = make_safe_backend(inner, feasibility=FeasibilityFilterConfig("a model"))
    backend.reset(0)
    inner.clock.advance_ns(10**9)
    step = backend.step(np.array([0.2, 0, 0, 0.7], np.float32))
    assert step.verdict.reasons == ("observation_stale",)
    np.testing.assert_array_equal(step.executed_action, np.array([0, 0, 0, 0.7], np.float32))


def test_actions_of_joints_are_shrunk_as_motions():
    backend = arm("joint_position", "gripper")
    _, _, _, actions = parts(backend)
    observation = backend.reset(0).observation
    action = actions.hold(observation, np.full(8, 0.5, np.float32))
    action[0] += 0.2
    nearer = action.copy()
    nearer[0] -= 0.05  # three quarters of the motion
    tried = []
    model = SimpleNamespace(quality=lambda state, options: tried.extend(options) or np.ones(len(options)))
    state = TurningState(backend.spec, backend.robot)
    FeasibilityFilter(model, state, 8, 0.0, actions.hold, actions.scaled)(observation, action, 0)
    np.testing.assert_allclose(tried[2], nearer, atol=1e-6)
    assert {option[-1] for option in tried} == {action[-1]}


def test_numbers_that_are_not_finite_are_refused(model):
    states, h = np.zeros((20, 2), np.float32), np.ones(20, np.float32)
    actions, ended = np.zeros((20, 1), np.float32), np.zeros(20, bool)
    made = FeasibilityModel(2, 1, HIDDEN)
    with pytest.raises(DataError, match="not finite, in constraint"):
        made.fit(states, actions, states, h * np.nan, ended, FeasibilityConfig(steps=1))
    with pytest.raises(DataError, match="diverged"):
        made.fit(states, actions, states, h, ended, FeasibilityConfig(steps=3, learning_rate=1e30))
    with pytest.raises(DataError, match=r"not finite, in scale: learn it anew"):
        made.load(model.state() | {"scale": np.array(np.nan, np.float32)})


def test_what_does_not_fit_is_refused(model, tmp_path):
    folder = tmp_path / "model"
    with pytest.raises(DataError, match="is no model of robo-rl safety learn"):
        load_model(folder, SPEC)
    save_model(folder, model, SPEC, HIDDEN, {})
    other = dataclasses.replace(SPEC, observation={"state": ArraySpec((2,), names=("v", "x"))})
    with pytest.raises(ConfigError, match=r"was learned elsewhere: observation 'state': expected elements"):
        load_model(folder, other)
    card = json.loads((folder / "card.json").read_text()) | {"hidden": [8]}
    (folder / "card.json").write_text(json.dumps(card))
    with pytest.raises(DataError, match="its numbers are not those of a feasibility model"):
        load_model(folder, SPEC)
    (folder / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="is no model of robo-rl safety learn"):
        load_model(folder, SPEC)
    with pytest.raises(ConfigError, match=r"learning\.expectile must be in \(0, 0\.5\)"):
        FeasibilityConfig(expectile=0.5)

"""Optimal transport: Sinkhorn against assignment and a linear programme; rewards and the discount schedule."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog, minimize

from robo_rl.core import ArraySpec, ConfigError, DataError
from robo_rl.rewards.modules.optimal_transport import OptimalTransportConfig, longest_increasing
from robo_rl.rewards.modules.optimal_transport_options import METRICS
from robo_rl.rewards.parts.sinkhorn import sinkhorn

from ..rigs.specs import joint_spec

SPEC = joint_spec({"state": ArraySpec((2,))})


PUBLISHED = {"reward": "cost", "metric": "euclidean", "epsilon": 0.01}


@pytest.mark.parametrize("seed", range(5))
def test_with_little_entropy_the_plan_is_the_best_assignment(seed):
    costs = np.random.default_rng(seed).uniform(size=(6, 6))
    plan = sinkhorn(torch.from_numpy(costs), 1e-3, 20_000).numpy()
    rows, columns = linear_sum_assignment(costs)
    best = min(sum(costs[i, j] for i, j in enumerate(order)) for order in itertools.permutations(range(6)))
    assert costs[rows, columns].sum() == pytest.approx(best)
    assert 6 * (plan * costs).sum() == pytest.approx(best, abs=2e-3)
    np.testing.assert_array_equal(plan.argmax(1), columns)


def test_lengths_may_differ():
    costs = np.random.default_rng(0).uniform(size=(4, 7))
    plan = sinkhorn(torch.from_numpy(costs), 1e-3, 20_000).numpy()
    marginals = [np.kron(np.eye(4), np.ones(7)), np.kron(np.ones(4), np.eye(7))]
    exact = linprog(costs.ravel(), A_eq=np.concatenate(marginals), b_eq=[1 / 4] * 4 + [1 / 7] * 7)
    assert (plan * costs).sum() == pytest.approx(exact.fun, abs=1e-3)
    np.testing.assert_allclose(plan.sum(0), 1 / 7, atol=1e-3)
    np.testing.assert_allclose(plan.sum(1), 1 / 4)


def test_a_hundred_iterations_are_enough_for_the_default_of_the_paper():
    """Of an episode far from a demonstration, where the last weight of the entropy alone is off by half a mean cost."""
    rng = np.random.default_rng(0)
    path, reference = (np.cumsum(rng.normal(size=(40, 2)), 0) for _ in range(2))
    costs = torch.from_numpy(np.linalg.norm(path[:, None] - reference, axis=-1))
    exact, found = (40 * (sinkhorn(costs, 0.01 * costs.mean(), count) * costs).sum(1) for count in (20_000, 100))
    assert (found - exact).abs().max() < 0.1 * costs.mean()


def test_the_plan_is_the_one_of_matrix_scaling_where_that_does_not_overflow():
    costs = np.random.default_rng(1).uniform(size=(5, 3))
    kernel, left, right = np.exp(-costs / 0.5), np.ones(5), np.ones(3)
    for _ in range(50):
        left = (1 / 5) / (kernel @ right)
        right = (1 / 3) / (kernel.T @ left)
    found = sinkhorn(torch.from_numpy(costs), 0.5, 50).numpy()
    np.testing.assert_allclose(found, left[:, None] * kernel * right, rtol=1e-10)


def test_float32_and_large_costs_stay_finite():
    plan = sinkhorn(torch.rand(20, 30, generator=torch.Generator().manual_seed(0)) * 1e4, 1e-2, 100)
    assert torch.isfinite(plan).all()


def episode(path):
    path = np.asarray(path, dtype=np.float32)
    return {
        "action": np.zeros((len(path) - 1, 1), np.float32),
        "observation/state": path[:-1],
        "next_observation/state": path[1:],
    }


def line(steps, noise=0.0, seed=0):
    """A walk along the diagonal of the unit square."""
    path = np.linspace(0, 1, steps + 1)[:, None] * np.ones(2)
    return episode(path + noise * np.random.default_rng(seed).normal(size=path.shape))


def fitted(demonstrations, **options):
    module = OptimalTransportConfig(**options).make("transport", SPEC, 0)
    module.fit(demonstrations)
    return module


def test_the_cosine_is_that_of_the_features_as_they_are():
    """Not divided by their deviations, which here differ a hundredfold."""
    demonstration = np.array([[1, 100], [2, 100], [3, 300], [4, 100], [5, -100]], np.float32)
    path = np.array([[0, 1], [1, 0], [-3, 200], [5, 5]], np.float32)
    module = OptimalTransportConfig(reward="cost", metric="cosine", epsilon=0.1).make("match", SPEC, 0)
    module.fit([episode(demonstration)])
    states, reference = path[1:].astype(np.float64), demonstration[1:].astype(np.float64)
    lengths = np.linalg.norm(states, axis=1)[:, None] * np.linalg.norm(reference, axis=1)
    costs = 1 - (states @ reference.T) / lengths
    plan = sinkhorn(torch.from_numpy(costs), 0.1 * costs.mean(), 100).numpy()
    one = reference / np.linalg.norm(reference, axis=1)[:, None]
    unit = (1 - one @ one[0]).mean()
    np.testing.assert_allclose(module(episode(path)), -3 * (plan * costs).sum(1) / unit, atol=1e-5)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_same_states_cost_nothing_and_others_do(metric):
    rng = np.random.default_rng(0)
    demonstration, other = episode(rng.normal(size=(9, 2))), episode(rng.normal(size=(9, 2)))
    module = fitted([demonstration, other], **PUBLISHED | {"metric": metric})
    assert abs(module(demonstration).sum()) < 0.05
    strange = module(episode(rng.normal(size=(13, 2))))
    assert strange.shape == (12,)
    assert strange.max() <= 0
    assert strange.sum() < -1


def test_rewards_follow_from_the_plan_and_the_best_demonstration_counts():
    rng = np.random.default_rng(3)
    demonstrations = [episode(rng.normal(size=(8, 2))) for _ in range(3)]
    agent = episode(rng.normal(size=(6, 2)))
    module = fitted(demonstrations, **PUBLISHED | {"epsilon": 0.05})
    scale = np.concatenate([each["next_observation/state"] for each in demonstrations]).std(0)
    candidates = []
    for each in demonstrations:
        states, reference = (x["next_observation/state"].astype(np.float64) / scale for x in (agent, each))
        costs = np.sqrt(((states[:, None] - reference) ** 2).sum(-1))
        kernel, left, right = np.exp(-costs / (0.05 * costs.mean())), np.ones(5), np.ones(7)
        for _ in range(5_000):
            left = (1 / 5) / (kernel @ right)
            right = (1 / 7) / (kernel.T @ left)
        candidates.append(-5 * (left[:, None] * kernel * right * costs).sum(1))
    paths = [each["next_observation/state"].astype(np.float64) / scale for each in demonstrations]
    unit = np.mean([min(np.linalg.norm(path - start, axis=1).mean() for path in paths) for start, *_ in paths])
    np.testing.assert_allclose(module(agent), max(candidates, key=np.sum) / unit, rtol=2e-3)


def plan_with_free_columns(costs, epsilon):
    """The cheapest but for its entropy of all whose rows sum to 1, found by descent."""

    def rows_of(logits):
        weights = np.exp(logits.reshape(costs.shape))
        return weights / weights.sum(1, keepdims=True)

    def objective(logits):
        plan = rows_of(logits)
        return (plan * costs).sum() + epsilon * (plan * np.log(plan)).sum()

    return rows_of(minimize(objective, np.zeros(costs.size), tol=1e-12).x)


def costs_between(states, reference, metric):
    """Costs (L, M) of states, one element after the other."""
    costs = np.zeros((len(states), len(reference)))
    for t, j, f in np.ndindex(len(states), len(reference), states.shape[1]):
        squared = (states[t, f] - reference[j, f]) ** 2
        costs[t, j] += squared if metric == "euclidean" else np.log(1 + squared / 0.01) / states.shape[1]
    return np.sqrt(costs) if metric == "euclidean" else costs


@pytest.mark.parametrize("metric", ["euclidean", "cauchy"])
def test_progress_is_what_is_done_in_the_states_that_a_step_is_moved_onto(metric):
    """Less where those are farther than the demonstrations are from each other."""
    rng = np.random.default_rng(4)
    demonstrations = [episode(rng.normal(size=(length, 2))) for length in (5, 7, 4)]
    agent = episode(rng.normal(size=(5, 2)) * np.array([[1], [1], [1], [1], [4]]))
    scale = np.concatenate([each["next_observation/state"] for each in demonstrations]).std(0)
    states, *references = (x["next_observation/state"].astype(np.float64) / scale for x in (agent, *demonstrations))
    reference = np.concatenate(references)
    done = np.concatenate([np.arange(1, len(each) + 1) / len(each) for each in references])
    costs = costs_between(states, reference, metric)
    plan = plan_with_free_columns(costs, 0.3 * costs.mean())
    nearest = [
        min(costs_between(state[None], other, metric).min() for other in references if other is not one)
        for one in references
        for state in one
    ]
    familiar = np.minimum(1, max(nearest) / costs.min(1))
    assert (familiar < 1).any()
    assert (familiar == 1).any()
    module = fitted(demonstrations, reward="progress", metric=metric, epsilon=0.3)
    np.testing.assert_allclose(module(agent), familiar * (plan @ done) - 1, atol=1e-5)


def test_progress_rises_along_a_demonstration_and_not_in_an_episode_that_stands_still():
    module = fitted([line(10), line(14)], reward="progress")
    rewards = module(line(20))
    assert (np.diff(rewards) > -1e-6).all()
    assert rewards[0] < -0.85
    assert rewards[-1] == pytest.approx(0, abs=1e-3)
    still = module(episode(np.full((21, 2), 0.05)))
    assert still.max() < -0.85
    assert np.ptp(still) == 0


def test_one_element_far_from_all_demonstrations_does_not_drown_the_others():
    """Wherever the second element is, the first tells by the metric ``cauchy`` how far an episode has come."""
    demonstration = line(10, 0.01)
    lost = line(10)
    lost["next_observation/state"] = lost["next_observation/state"] * np.float32([1, 0]) + np.float32([0, 1.2])
    shares = {metric: 1 + fitted([demonstration], metric=metric)(lost) for metric in METRICS[:2]}
    error = {metric: np.abs(each / each[-1] - np.linspace(0.1, 1, 10)).max() for metric, each in shares.items()}
    assert error["cauchy"] < 0.15
    assert error["euclidean"] > 2 * error["cauchy"]


def test_unknown_rewards_and_metrics_are_refused():
    with pytest.raises(ConfigError, match="reward must be one of progress, cost"):
        OptimalTransportConfig(reward="advance")
    with pytest.raises(ConfigError, match="metric must be one of cauchy, euclidean, cosine"):
        OptimalTransportConfig(metric="manhattan")


@pytest.mark.parametrize("factor", [1, 100])
def test_to_stay_where_demonstrations_begin_is_worth_minus_one_a_step(factor):
    """Whatever the unit of the observation."""
    module = fitted([episode(factor * np.cumsum(np.ones((9, 2)), 0)) for _ in range(2)], **PUBLISHED)
    staying = module(episode(np.full((14, 2), 2.0 * factor)))
    np.testing.assert_allclose(staying, -1, rtol=1e-3)
    assert fitted([episode(np.ones((4, 2)))], **PUBLISHED)(episode(np.ones((5, 2)))).sum() == 0


@settings(max_examples=200)
@given(st.lists(st.integers(0, 9), max_size=9))
def test_longest_increasing_subsequence(numbers):
    lengths = [
        len(chosen)
        for size in range(len(numbers) + 1)
        for chosen in itertools.combinations(numbers, size)
        if all(a < b for a, b in itertools.pairwise(chosen))
    ]
    assert longest_increasing(numbers) == max(lengths)


def test_the_discount_grows_as_episodes_follow_the_demonstrations():
    """An agent that walks ever further: progress never falls, and follows how far it gets."""
    module = fitted([line(20, 0.001, 1), line(20, 0.001, 2)], scheduled_discount=True, interval=2)
    assert module.progress == 4
    assert module.discount() == pytest.approx(0.2 ** (1 / 4))
    trace = []
    for reach in [0] * 6 + [8] * 6 + [20] * 12 + [0] * 4:
        path = np.zeros((21, 2))
        path[: reach + 1] = np.linspace(0, reach / 20, reach + 1)[:, None]
        path[reach:] = reach / 20
        module.observe(episode(path))
        trace.append(module.progress)
    assert trace == sorted(trace)
    assert trace[5] == 4  # an agent that stands still follows nothing
    assert 8 <= trace[11] <= 10
    assert trace[-1] == 20
    assert module.discount() == pytest.approx(0.2 ** (1 / 20))


def test_without_a_schedule_the_agent_keeps_its_discount():
    assert fitted([line(10)]).discount() is None


def test_state_goes_on_without_demonstrations():
    module = fitted([line(10), line(12, 0.1)], scheduled_discount=True, interval=3)
    module.observe(line(7, 0.1, 5))
    other = OptimalTransportConfig(scheduled_discount=True, interval=3).make("transport", SPEC, 1)
    other.load({name: array.copy() for name, array in module.state().items()})
    np.testing.assert_array_equal(module(line(9, 0.2)), other(line(9, 0.2)))
    for seed in range(5):
        for each in (module, other):
            each.observe(line(12, 0.001, seed))
        assert module.progress == other.progress
    for key, value in module.state().items():
        np.testing.assert_array_equal(value, other.state()[key])


def test_demonstrations_are_needed():
    with pytest.raises(DataError, match="'transport' needs demonstrations, and there are none"):
        fitted([])

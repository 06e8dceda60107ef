"""Progress judged by own successes: clusters against a graph's components, rewards against the published formula."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from robo_rl.core import ArraySpec, CheckpointError
from robo_rl.rewards.modules.successes import SuccessesConfig, clusters

from ..rigs.specs import joint_spec

SPEC = joint_spec({"state": ArraySpec((1,))})


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("neighbours", [1, 2, 4])
def test_clusters_are_the_components_of_what_is_dense(seed, neighbours):
    points = np.random.default_rng(seed).uniform(0, 3, (25, 2))
    labels = clusters(points, 0.4, neighbours)
    near = np.sqrt(((points[:, None] - points) ** 2).sum(-1) / 2) <= 0.4
    core = near.sum(1) >= neighbours
    _, components = connected_components(near & core[:, None] & core)
    for a in np.flatnonzero(core):
        for b in np.flatnonzero(core):
            assert (labels[a] == labels[b]) == (components[a] == components[b])
    for point in np.flatnonzero(~core):
        reachable = set(labels[near[point] & core])
        assert labels[point] in (reachable or {-1})


def episode(end, success, steps=10):
    """A walk from 0 to ``end``."""
    path = np.linspace(0, end, steps + 1, dtype=np.float32)[:, None]
    return {
        "action": np.zeros((steps, 1), np.float32),
        "observation/state": path[:-1],
        "next_observation/state": path[1:],
        "success": np.array([0] * (steps - 1) + [success], np.int8),
    }


def module_of(*seen, **options):
    module = SuccessesConfig(**options).make("own", SPEC, 0)
    for each in seen:
        module.observe(each)
    return module


def test_only_the_last_step_counts_and_a_success_is_one():
    module = module_of()
    np.testing.assert_array_equal(module(episode(1.0, 1)), [0] * 9 + [1])
    np.testing.assert_array_equal(module(episode(0.3, 0)), [0] * 10)  # no success to compare with


def test_failures_are_ranked_by_their_distance_to_successes():
    successes = [episode(end, 1) for end in (0.98, 1.0, 1.02)]
    failures = [episode(end, 0) for end in (0.0, 0.3, 0.9)]
    module = module_of(*successes, *failures)
    worth = [module(each)[-1] for each in failures]
    # The nearest and the farthest are at places 0 and 1, the other where its distance is between theirs.
    place = (1.0 - 0.3 - 0.1) / (1.0 - 0.1)
    expected = [0.6 / (1 + np.exp(-10 * (0.5 - p))) for p in (1, place, 0)]
    np.testing.assert_allclose(worth, expected, rtol=1e-3)


def test_a_lone_failure_is_worth_half_of_the_most():
    module = module_of(episode(1.0, 1), episode(0.5, 0))
    assert module(episode(0.5, 0))[-1] == pytest.approx(0.3)


def test_the_nearest_of_several_ways_counts():
    """Successes of two kinds: a failure near one of them is near, though far from the mean of all."""
    ways = [episode(end, 1) for end in (1.0, 1.01, -1.0, -1.01)]
    module = module_of(*ways, episode(0.0, 0), episode(0.95, 0))
    assert module(episode(0.95, 0))[-1] > module(episode(0.0, 0))[-1]


def test_demonstrations_count_as_successes_and_memory_is_bounded():
    module = module_of(memory=2)
    module.fit([episode(1.0, 1), episode(0.2, 0), episode(1.1, 1), episode(1.2, 1)])
    assert module.state()["failures"].shape == (0, 8)
    np.testing.assert_allclose(module.state()["successes"][:, -1], [1.1, 1.2])


def test_state_goes_on():
    module = module_of(episode(1.0, 1), episode(0.0, 0), episode(0.9, 0))
    other = module_of()
    other.load(module.state())
    np.testing.assert_array_equal(module(episode(0.5, 0)), other(episode(0.5, 0)))
    with pytest.raises(CheckpointError, match="reward module 'own': expected 'successes'"):
        other.load({})

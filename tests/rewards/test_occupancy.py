"""Divergences of a policy's states from demonstrated ones, against Gaussians whose densities are known."""

import math

import numpy as np
import pytest

from robo_rl.core import ArraySpec, ConfigError, DataError
from robo_rl.rewards.modules.occupancy import OccupancyConfig

from ..rigs.specs import joint_spec

SPEC = joint_spec({"state": ArraySpec((1,))})
LEARNING = {"jitter": 0.0, "interval": 1, "updates": 100, "first_updates": 100, "window": 5000, "batch_size": 512}


def rows(states):
    states = np.asarray(states, np.float32).reshape(-1, 1)
    zeros = np.zeros_like(states)
    return {"observation/state": zeros, "next_observation/state": states, "action": zeros}


def learned(divergence, mean=0.5, rounds=10, **options):
    """The module of a policy at N(mean, 1) and demonstrations at N(0, 1), and the last metrics."""
    rng = np.random.default_rng(0)
    module = OccupancyConfig(divergence=divergence, **LEARNING | options).make("apart", SPEC, 0)
    module.fit([rows(rng.normal(0, 1, 5000))])
    module.observe(rows(rng.normal(mean, 1, 5000)))
    for _ in range(rounds):
        metrics = module.update(None)
    return module, metrics


def test_kullback_leibler_of_gaussians():
    """Of N(m, 1) and N(0, 1): m^2 / 2, in the mean of m x - m^2 / 2."""
    module, metrics = learned("kl")
    assert metrics["divergence"] == pytest.approx(0.125, abs=0.04)  # judged by the states it learned from
    x = np.linspace(-1.5, 2, 15)
    np.testing.assert_allclose(module(rows(x)), -(0.5 * x - 0.125), atol=0.15)


def test_chi_squared_of_gaussians():
    """Of N(m, 1) and N(0, 1): exp(m^2) - 1, in the mean of exp(m x - m^2 / 2) - 1; rewards divided by its root."""
    module, metrics = learned("chi_squared")
    root = math.sqrt(math.exp(0.25) - 1)
    assert metrics["divergence"] == pytest.approx(root, abs=0.08)
    x = np.linspace(-1.5, 2, 15)
    np.testing.assert_allclose(module(rows(x)), -np.expm1(0.5 * x - 0.125) / root, atol=0.35)
    fresh = np.random.default_rng(1).normal(0.5, 1, 20_000)
    assert module(rows(fresh)).mean() == pytest.approx(-root, abs=0.12)


def test_the_same_states_do_not_diverge_and_what_never_overlaps_does_no_more_than_is_told_apart():
    assert learned("kl", mean=0.0)[1]["divergence"] < 0.02
    module, metrics = learned("kl", mean=50.0, largest_ratio=20.0, rounds=5)
    assert metrics["divergence"] == pytest.approx(math.log(20))
    np.testing.assert_allclose(module(rows([50.0, 0.0])), [-math.log(20), math.log(20)], atol=0.1)


def test_the_first_update_is_longer():
    """So that what the network has yet to learn does not look as if the policy went away."""
    short = learned("kl", mean=2.0, rounds=1, first_updates=1)[1]["divergence"]
    long, metrics = learned("kl", mean=2.0, rounds=1, first_updates=500)
    assert short < 0.5 < metrics["divergence"]
    assert metrics["divergence"] == pytest.approx(2.0, abs=0.4)
    assert long.update(None)["divergence"] == pytest.approx(metrics["divergence"], abs=0.3)


def test_the_newest_states_count():
    config = OccupancyConfig(window=4, learning_starts=2, interval=1, first_updates=1, hidden=(4,))
    module = config.make("apart", SPEC, 0)
    module.fit([rows([-1.0, 1.0])])  # mean 0, deviation 1
    module.observe(rows([1, 2, 3]))
    np.testing.assert_allclose(module._arrays["newest"][:, 0], [1, 2, 3, 0])
    module.observe(rows([4, 5, 6]))
    np.testing.assert_allclose(module._arrays["newest"][:, 0], [5, 6, 3, 4])


def test_nothing_is_said_before_there_is_something_to_compare():
    config = OccupancyConfig(window=8, learning_starts=3, interval=2, updates=1, first_updates=1, hidden=(4,))
    module = config.make("apart", SPEC, 0)
    with pytest.raises(DataError, match="'apart' needs demonstrations, and there are none"):
        module.fit([])
    module.fit([rows([-1.0, 1.0])])
    for seen in range(3):
        assert module.update(None) == {} and not module(rows([5.0])).any(), seen
        module.observe(rows([5.0]))
    assert set(module.update(None)) == {"loss", "divergence"} and module.version == 1
    assert module.update(None) == {} and module.version == 1
    assert module.update(None) and module.version == 2


def test_it_goes_on_from_what_it_saved():
    module, _ = learned("chi_squared", rounds=1, updates=3)
    other = OccupancyConfig(**LEARNING | {"updates": 3}).make("apart", SPEC, 0)
    other.load({key: value.copy() for key, value in module.state().items()})
    assert module.update(None) == other.update(None)
    np.testing.assert_array_equal(module(rows([0.3, 2.0])), other(rows([0.3, 2.0])))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"divergence": "distance"}, "divergence must be one of chi_squared, kl"),
        ({"window": 50}, "learning_starts must be at most window=50"),
        ({"largest_ratio": 1.0}, "largest_ratio must be above 1"),
        ({"jitter": -1.0}, "jitter must be 0 or more"),
        ({"interval": 0}, "interval must be 1 or more"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        OccupancyConfig(**options)

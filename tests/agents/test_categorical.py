"""Bins and their values against numeric integrals, plain sums and finite differences."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from robo_rl.agents.parts.adam import TrainState, adam_step, bias_corrections
from robo_rl.agents.parts.categorical import expected_value, hl_gauss
from robo_rl.agents.sac.update import critic_loss

from .test_update import SMALL, A, O, initial

BINS = dataclasses.replace(SMALL, value_bins=11, value_range=(-0.1, 1.0))


def mean_of(shares, bins, value_range):
    low, high = value_range
    width = (high - low) / bins
    return float(shares.double().numpy() @ (low + width * (np.arange(bins) + 0.5)))


def test_shares_are_integrals_of_a_gaussian():
    bins, (low, high) = 11, (-1.0, 4.5)
    for target in (-1.0, -0.3, 1.234, 4.4):
        density = stats.norm(target, 0.75 * 0.5).pdf
        edges = low + 0.5 * np.arange(bins + 1)
        areas = np.array([integrate.quad(density, a, a + 0.5, epsabs=1e-12)[0] for a in edges[:-1]])
        found = hl_gauss(torch.tensor([target], dtype=torch.float64), bins, (low, high))
        np.testing.assert_allclose(found[0].numpy(), areas / areas.sum(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("bins", "value_range"), [(51, (-0.1, 1.1)), (21, (-100.0, 20.0)), (2, (0.0, 1.0))])
def test_shares_sum_to_one_and_have_their_target_as_mean(bins, value_range):
    low, high = value_range
    width = (high - low) / bins
    targets = torch.linspace(low - width, high + width, 200)
    shares = hl_gauss(targets, bins, value_range)
    assert shares.dtype == torch.float32 and (shares >= 0).all()
    torch.testing.assert_close(shares.sum(1), torch.ones(200))
    for target, share in zip(targets.tolist(), shares, strict=True):
        error = (mean_of(share, bins, value_range) - min(max(target, low), high)) / width
        inside = low + 2 * width < target < high - 2 * width
        assert abs(error) < (0.02 if inside else 0.7), "in widths of a bin"


def test_a_target_beyond_the_range_counts_as_its_end_and_none_that_is_not_a_number_is_hidden():
    found = hl_gauss(torch.tensor([-7.0, 0.0, 1.0, torch.inf, torch.nan]), 5, (0.0, 1.0))
    assert torch.equal(found[0], found[1]) and torch.equal(found[2], found[3])
    assert found[4].isnan().all()
    torch.testing.assert_close(found[0], found[2].flip(0))


def test_a_value_is_the_mean_of_the_centres():
    logits = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shares = np.exp(logits.numpy()) / np.exp(logits.numpy()).sum(-1, keepdims=True)
    expected = shares @ np.array([-0.8, -0.4, 0.0, 0.4, 0.8])
    np.testing.assert_allclose(expected_value(logits, (-1.0, 1.0)).numpy(), expected, rtol=1e-12)


def rows(count=6):
    source = torch.Generator().manual_seed(4)
    observation, action = (torch.randn(count, n, generator=source, dtype=torch.float64) for n in (O, A))
    return observation, action, torch.rand(count, generator=source, dtype=torch.float64)


@pytest.mark.parametrize("network", [{}, {"network": "simba", "hidden": (6, 6)}])
def test_the_gradient_is_that_of_finite_differences(network):
    config = dataclasses.replace(BINS, **network, activation="tanh")
    critic = {k: v for k, v in initial(config, torch.float64).items() if k.startswith("critic/")}
    observation, action, target = rows()
    gradients, _ = torch.func.grad(critic_loss, has_aux=True)(critic, config, observation, action, target)
    source = torch.Generator().manual_seed(5)
    for name, tensor in critic.items():
        direction = torch.randn(tensor.shape, generator=source, dtype=torch.float64)
        ahead, behind = (
            critic_loss(critic | {name: tensor + step * direction}, config, observation, action, target)[0]
            for step in (1e-5, -1e-5)
        )
        slope = (gradients[name] * direction).sum()
        torch.testing.assert_close(slope, (ahead - behind) / 2e-5, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("network", [{}, {"network": "simba", "hidden": (16, 16)}])
def test_values_converge_to_targets_that_stay(network):
    config = dataclasses.replace(BINS, **network)
    parameters = {k: v for k, v in initial(config, torch.float64).items() if k.startswith("critic/")}
    state = TrainState.of(parameters)
    observation, action, _ = rows()
    target = torch.tensor([0.1, 0.25, 0.4, 0.5, 0.6, 0.75], dtype=torch.float64)  # two bins from both ends
    gradient = torch.func.grad(critic_loss, has_aux=True)
    for step in range(1, 601):
        gradients, values = gradient(parameters, config, observation, action, target)
        adam_step(state, gradients, 0.01, bias_corrections(step))
    torch.testing.assert_close(values, target.expand(3, -1), rtol=0, atol=0.01)  # a tenth of a bin
    # No less than the entropy of what it should say, and there.
    shares = hl_gauss(target, config.value_bins, config.value_range).numpy()
    loss, _ = critic_loss(parameters, config, observation, action, target)
    assert float(loss) / 3 == pytest.approx(stats.entropy(shares, axis=1).mean(), abs=1e-2)

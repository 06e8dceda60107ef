"""Implicit Q-learning: one update against plain autograd in float64, expectiles, and that it beats its data."""

import copy

import numpy as np
import pytest
import torch
from scipy.stats import expectile
from torch import nn

from robo_rl.agents.iql import IQLConfig, make_iql
from robo_rl.agents.parts.losses import expectile_loss
from robo_rl.core import ArraySpec, CheckpointError, ConfigError, DivergenceError

from ..rigs.specs import toy_spec

SPEC = toy_spec({"state": ArraySpec((2,))}, 1)


def best(state):
    return 0.6 * np.tanh(2 * state[:, :1] - state[:, 1:])


def data(rows, seed, discount=0.0):
    """Random actions; the reward says how near they are to the best."""
    rng = np.random.default_rng(seed)
    state, action = (rng.uniform(-1, 1, (rows, size)).astype(np.float32) for size in (2, 1))
    return {
        "observation/state": state,
        "next_observation/state": rng.uniform(-1, 1, (rows, 2)).astype(np.float32),
        "action": action,
        "reward": -np.abs(action - best(state))[:, 0].astype(np.float32),
        "discount": np.full(rows, discount, np.float32),
    }


def test_the_loss_is_least_at_the_expectile():
    values = np.random.default_rng(0).normal(size=200)
    for share in (0.5, 0.7, 0.9):
        guess = torch.tensor(expectile(values, share), requires_grad=True, dtype=torch.float64)
        loss = expectile_loss(torch.from_numpy(values) - guess, share)
        (gradient,) = torch.autograd.grad(loss, guess)
        assert float(gradient) == pytest.approx(0, abs=1e-6)


def as_module(arrays, name, member=None):
    """Return a network of a saved state as torch modules in float64."""
    layers = []
    for layer in ("0", "output"):
        weight, bias = (arrays[f"{name}/{layer}/{part}"].astype(np.float64) for part in ("weight", "bias"))
        if member is not None:
            weight, bias = weight[member], bias[member]
        linear = nn.Linear(*weight.shape).double()
        linear.weight.data, linear.bias.data = torch.from_numpy(weight.T.copy()), torch.from_numpy(bias.copy())
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def test_an_update_is_what_the_paper_says():
    """All three losses and Adam once more, by autograd in float64, for two updates in a row."""
    options = {"hidden": [16], "normalise_observations": False, "learning_rate": 1e-2, "tau": 0.25, "gamma": 0.9}
    agent = make_iql(spec=SPEC, seed=0, **options, expectile=0.8, inverse_temperature=2.0, largest_weight=0.4)
    start = agent.state()
    value, actor = as_module(start, "value"), as_module(start, "actor")
    critics = [as_module(start, "critic", member) for member in range(2)]
    targets = copy.deepcopy(critics)
    adam = {id(net): torch.optim.Adam(net.parameters(), 1e-2) for net in (value, actor, *critics)}

    def descend(net, loss):
        adam[id(net)].zero_grad()
        loss.backward()
        adam[id(net)].step()

    for seed in range(2):
        batch = data(32, seed, discount=0.9)
        rows = {key: torch.from_numpy(array.astype(np.float64)) for key, array in batch.items()}
        state, following, action = (rows[key] for key in ("observation/state", "next_observation/state", "action"))
        pair = torch.cat((state, action), 1)
        with torch.no_grad():
            q = torch.minimum(*(net(pair)[:, 0] for net in targets))
        u = q - value(state)[:, 0]
        descend(value, ((0.8 - (u < 0).double()).abs() * u**2).mean())
        with torch.no_grad():
            weight = torch.exp(2.0 * (q - value(state)[:, 0])).clamp(max=0.4)
            wanted = rows["reward"] + 0.9 * value(following)[:, 0]
        assert 0 < (weight == 0.4).sum() < 32
        descend(actor, (weight * (torch.tanh(actor(state)[:, :1]) - action).square().sum(1)).mean())
        for net, target in zip(critics, targets, strict=True):
            descend(net, (net(pair)[:, 0] - wanted).square().mean())
            for ours, theirs in zip(target.parameters(), net.parameters(), strict=True):
                ours.data += 0.25 * (theirs.data - ours.data)
        agent.update(batch)

    found = agent.state()
    for name, expected in (("value", value), ("actor", actor), ("averaged/actor", actor)):
        for ours, theirs in zip(as_module(found, name).parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    for name, nets in (("critic", critics), ("target_critic", targets)):
        for member, expected in enumerate(nets):
            for ours, theirs in zip(as_module(found, name, member).parameters(), expected.parameters(), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_it_acts_better_than_its_data_where_imitation_does_not():
    unseen = data(500, 99)["observation/state"]
    errors = {}
    for beta in (0.0, 10.0):
        agent = make_iql(spec=SPEC, seed=0, hidden=[64], learning_rate=3e-3, inverse_temperature=beta)
        agent.fit_normaliser(data(500, 0))
        for seed in range(400):
            agent.pretrain(data(256, seed))
        acted = np.stack([agent.act({"state": row}, explore=True) for row in unseen])
        errors[beta] = np.abs(acted - best(unseen)).mean()
    assert errors[0.0] > 0.2
    assert errors[10.0] < 0.1


def test_state_goes_on_bit_for_bit_and_acts_alike():
    first, second = (make_iql(spec=SPEC, seed=seed, hidden=[8]) for seed in (0, 1))
    first.fit_normaliser(data(50, 0))
    first.update(data(32, 0))
    second.load(first.state())
    assert first.update(data(32, 1)) == second.update(data(32, 1))
    policy = make_iql(spec=SPEC, seed=2, hidden=[8])
    policy.load_policy(first.policy_state())
    observation = {"state": np.array([0.3, -0.2], np.float32)}
    np.testing.assert_array_equal(policy.act(observation, explore=False), second.act(observation, explore=True))
    with pytest.raises(RuntimeError, match="cannot change"):
        first.fit_normaliser(data(50, 0))
    with pytest.raises(CheckpointError, match="value/0/weight"):
        second.load({key: array for key, array in first.state().items() if key != "value/0/weight"})


def test_refuses_what_makes_no_sense():
    for key, value in (("expectile", 0.4), ("expectile", 1.0), ("gamma", 1.1), ("hidden", ()), ("batch_size", 0)):
        with pytest.raises(ConfigError, match=key):
            IQLConfig(**{key: value})
    agent = make_iql(spec=SPEC, seed=0, hidden=[8])
    with pytest.raises(DivergenceError, match="critic_loss is nan at update 1"):
        agent.update(data(8, 0) | {"reward": np.full(8, np.nan, np.float32)})

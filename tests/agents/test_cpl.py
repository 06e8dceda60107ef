"""Contrastive preference learning: steps against plain autograd in float64, and that it beats imitation of its data."""

import numpy as np
import pytest
import torch
from torch import nn

from robo_rl.agents.cpl import CPLConfig, make_cpl
from robo_rl.core import ArraySpec, CheckpointError, Comparisons, ConfigError, DivergenceError

from ..rigs.specs import toy_spec

SPEC = toy_spec({"state": ArraySpec((2,))}, 1)


def best(state):
    return 0.6 * np.tanh(2 * state[..., :1] - state[..., 1:])


def data(rows, seed):
    """Random actions."""
    rng = np.random.default_rng(seed)
    state, action = (rng.uniform(-1, 1, (rows, size)).astype(np.float32) for size in (2, 1))
    return {"observation/state": state, "action": action}


def compared(pairs, length, seed, noise=0.0):
    """Segments of random actions, of which that one is preferred whose actions are nearer to the best."""
    rows = data(pairs * 2 * length, seed)
    segments = {key: array.reshape(pairs, 2, length, -1) for key, array in rows.items()}
    regret = ((segments["action"] - best(segments["observation/state"])) ** 2).sum((2, 3))
    wrong = np.random.default_rng(seed).uniform(size=pairs) < noise
    return Comparisons(segments, ((regret[:, 1] < regret[:, 0]) != wrong).astype(np.float32))


def as_module(arrays, name):
    """Return the actor of a saved state as torch modules in float64."""
    layers = []
    for layer in ("0", "output"):
        weight, bias = (
            torch.from_numpy(arrays[f"{name}/{layer}/{part}"].astype(np.float64)) for part in ("weight", "bias")
        )
        linear = nn.Linear(*weight.shape).double()
        linear.weight.data, linear.bias.data = weight.T.contiguous(), bias
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def test_steps_are_what_the_paper_says():
    """Two of imitation, then two of contrast with an optimiser that begins anew, by autograd in float64."""
    options = {"hidden": [16], "normalise_observations": False, "learning_rate": 1e-2, "cloning_steps": 2}
    agent = make_cpl(spec=SPEC, seed=0, **options, gamma=0.9, temperature=2.0, conservative_weight=0.7, pairs=8)
    # All pairs are alike, so that it does not matter which are drawn.
    one = compared(1, 3, 5)
    agent.fit_comparisons(
        Comparisons({key: array.repeat(4, 0) for key, array in one.segments.items()}, one.second.repeat(4))
    )
    actor = as_module(agent.state(), "actor")

    def likelihood(state, action):
        return (
            -(torch.tanh(actor(torch.from_numpy(state).double())[..., :1]) - torch.from_numpy(action)).square().sum(-1)
        )

    for step in range(4):
        if step % 2 == 0:
            adam = torch.optim.Adam(actor.parameters(), 1e-2)
        rows = data(32, step)
        if step < 2:
            loss = -likelihood(rows["observation/state"], rows["action"]).mean()
        else:
            steps = likelihood(one.segments["observation/state"][0], one.segments["action"][0])
            first, second = 2.0 * (steps * torch.tensor([1.0, 0.9, 0.81])).sum(1)
            better, worse = (second, first) if one.second[0] else (first, second)
            loss = -torch.log(torch.exp(better) / (torch.exp(better) + torch.exp(0.7 * worse)))
        adam.zero_grad()
        loss.backward()
        adam.step()
        metrics = agent.update(rows)
        assert metrics["bc_loss" if step < 2 else "cpl_loss"] == pytest.approx(loss.item(), rel=1e-5)
    for name in ("actor", "averaged/actor"):
        for ours, theirs in zip(as_module(agent.state(), name).parameters(), actor.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("noise", "most"), [(0.0, 0.15), (0.2, 0.28)])
def test_it_acts_better_than_its_data(noise, most):
    unseen = data(500, 99)["observation/state"]
    errors = {}
    for steps in (100, 500):
        agent = make_cpl(spec=SPEC, seed=0, hidden=[64], learning_rate=3e-3, cloning_steps=100)
        agent.fit_normaliser(data(500, 0))
        agent.fit_comparisons(compared(1000, 4, 0, noise))
        for seed in range(steps):
            metrics = agent.pretrain(data(256, seed))
        acted = np.stack([agent.act({"state": row}, explore=True) for row in unseen])
        errors[steps] = np.abs(acted - best(unseen)).mean()
    assert metrics["accuracy"] > 0.75 - noise
    assert errors[100] > 0.3
    assert errors[500] < most


def test_state_goes_on_bit_for_bit_and_acts_alike():
    first, second = (make_cpl(spec=SPEC, seed=0, hidden=[8], cloning_steps=1) for _ in range(2))
    first.fit_normaliser(data(50, 0))
    for agent in (first, second):
        agent.fit_comparisons(compared(20, 3, 0))
    first.update(data(32, 0))
    first.update(data(32, 0))
    second.load(first.state())
    second.fit_comparisons(compared(20, 3, 0))  # seen through the normalisation that was loaded
    assert first.update(data(32, 1)) == second.update(data(32, 1))
    policy = make_cpl(spec=SPEC, seed=2, hidden=[8])
    policy.load_policy(first.policy_state())
    observation = {"state": np.array([0.3, -0.2], np.float32)}
    np.testing.assert_array_equal(policy.act(observation, explore=False), second.act(observation, explore=True))
    with pytest.raises(CheckpointError, match="actor/0/weight"):
        second.load({key: array for key, array in first.state().items() if key != "actor/0/weight"})


def test_refuses_what_makes_no_sense():
    for key, value in (("temperature", 0), ("gamma", 1.1), ("conservative_weight", -1), ("hidden", ()), ("pairs", 0)):
        with pytest.raises(ConfigError, match=key):
            CPLConfig(**{key: value})
    agent = make_cpl(spec=SPEC, seed=0, hidden=[8], cloning_steps=0)
    nothing = compared(4, 3, 0)
    for comparisons in (
        None,
        Comparisons({key: rows[:0] for key, rows in nothing.segments.items()}, nothing.second[:0]),
    ):
        with pytest.raises(ConfigError, match="agent=cpl learns from preferences between segments"):
            agent.fit_comparisons(comparisons)
    broken = {"action": np.full_like(nothing.segments["action"], np.nan)}
    agent.fit_comparisons(Comparisons(nothing.segments | broken, nothing.second))
    with pytest.raises(DivergenceError, match="cpl_loss is nan at update 1"):
        agent.update(data(8, 0))

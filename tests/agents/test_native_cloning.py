"""Native behaviour cloning against autograd and PyTorch's own Adam in float64."""

import math

import numpy as np
import pytest
import torch

from robo_rl.agents.bc import make_bc
from robo_rl.agents.parts.native import available
from robo_rl.agents.parts.networks import actor_distribution
from robo_rl.agents.sac import make_sac
from robo_rl.core import ArraySpec, DivergenceError

from ..rigs.specs import toy_spec

pytestmark = pytest.mark.skipif(not available()[0], reason=available()[1])

OBSERVATION, ACTION = 17, 3
SPEC = toy_spec({"state": ArraySpec((OBSERVATION,))}, ACTION, reward_terms=())


def demonstrations(rows, seed):
    generator = np.random.default_rng(seed)
    return {
        "action": np.zeros((rows, ACTION), np.float32),
        "observation/state": generator.normal(size=(rows, OBSERVATION)).astype(np.float32),
        "proposed_action": np.tanh(generator.normal(size=(rows, ACTION))).astype(np.float32),
    }


def make_with_threads(threads):
    agent = make_bc(spec=SPEC, seed=0, hidden=(64, 100), normalise_observations=False)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        agent.update(demonstrations(30, 0))  # makes the threads
    finally:
        torch.set_num_threads(before)
    return agent


@pytest.mark.parametrize(
    "fields",
    [
        {"activation": "tanh"},
        {"activation": "silu", "hidden": (40, 24, 100)},
        {"activation": "relu"},
        {"activation": "tanh", "actor_layer_norm": True},
        {"activation": "tanh", "action_chunk": 7},  # an output wider than a register
    ],
    ids=lambda fields: " ".join(map(str, fields.values())),
)
def test_steps_are_those_of_autograd_and_adam(fields):
    rows = 45  # not a multiple of a block
    chunk = fields.get("action_chunk", 1)
    agent = make_bc(spec=SPEC, seed=0, normalise_observations=False, **{"hidden": (64, 100), **fields})
    assert agent.implementation == "native"
    exact = {
        name: torch.from_numpy(value).double().requires_grad_()
        for name, value in agent.state().items()
        if name.startswith("actor/")
    }
    start = {name: value.detach().clone() for name, value in exact.items()}
    adam = torch.optim.Adam(exact.values(), lr=agent.config.learning_rate)
    for step in range(5):
        batch = demonstrations(rows, step)
        batch["proposed_action"] = np.concatenate(
            [demonstrations(rows, 100 * step + part)["proposed_action"] for part in range(chunk)], axis=1
        )
        mean, _ = actor_distribution(
            exact, torch.from_numpy(batch["observation/state"]).double(), agent.config.activation
        )
        loss = (mean.tanh() - torch.from_numpy(batch["proposed_action"]).double()).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        assert agent.pretrain(batch)["bc_loss"] == pytest.approx(loss.item(), rel=1e-5)
    got = agent.state()
    for name, value in exact.items():
        change = (value - start[name]).detach()
        assert change.norm() > 0, name
        error = torch.from_numpy(got[name]).double() - start[name] - change
        # Adam's steps magnify the rounding of gradients near zero: compared as a whole, not element by element.
        assert error.norm() < 5e-3 * change.norm(), name


def test_threads_do_not_change_the_result():
    one, two = (make_with_threads(threads) for threads in (1, 2))
    for step in range(3):
        batch = demonstrations(30, step)
        assert one.update(batch) == two.update(batch)
    ours, theirs = one.state(), two.state()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_batches_of_another_size_go_on_with_the_same_optimiser():
    agent, other = (make_bc(spec=SPEC, seed=0, hidden=(16,), normalise_observations=False) for _ in range(2))
    other._cloning.implementation = "torch"
    for rows in (20, 9, 20):
        batch = demonstrations(rows, rows)
        assert agent.update(batch)["bc_loss"] == pytest.approx(other.update(batch)["bc_loss"], rel=1e-5)


@pytest.mark.parametrize("field", ["observation/state", "proposed_action"])
def test_what_is_not_finite_is_told_and_spoils_nothing(field):
    agent = make_bc(spec=SPEC, seed=0, normalise_observations=False)
    agent.update(demonstrations(10, 0))
    before = agent.state()
    batch = demonstrations(10, 1)
    batch[field][7, 1] = math.nan
    with pytest.raises(DivergenceError, match="bc_loss is nan at step 2"):
        agent.update(batch)
    after = agent.state()
    assert all(np.array_equal(before[name], after[name]) for name in before if name != "cloning_steps")


def test_an_agent_clones_by_the_implementation_that_it_learns_by():
    torch_agent, native_agent = (
        make_sac(spec=SPEC, seed=0, hidden=(32,), implementation=b) for b in ("torch", "native")
    )
    batch = demonstrations(40, 0)
    for agent in (torch_agent, native_agent):
        agent.fit_normaliser(batch)
        for step in range(5):
            loss = agent.pretrain(demonstrations(40, step))["bc_loss"]
        assert agent._cloning.implementation == agent.implementation.split()[0]
    assert native_agent.pretrain(batch)["bc_loss"] == pytest.approx(torch_agent.pretrain(batch)["bc_loss"], rel=1e-4)
    assert loss > 0

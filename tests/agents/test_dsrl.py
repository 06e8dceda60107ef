"""Diffusion steering: the better of two ways, a frozen flow, gradients by hand, starts from a flow, and resuming."""

import numpy as np
import pytest
import torch

from robo_rl.agents.dsrl import DSRL, DSRLConfig, make_dsrl
from robo_rl.agents.flow import FlowCloning, make_flow
from robo_rl.agents.fql import make_fql
from robo_rl.agents.parts.flow import sample_flow
from robo_rl.agents.parts.networks import actor_distribution, critic_values, sample_action
from robo_rl.core import ConfigError

from ..rigs.chunk_rows import ORIGIN, SPEC, assert_continues_in_mid_chunk, sampled_chunks, two_ways

NETWORKS = {"hidden": [8], "action_chunk": 2, "batch_size": 16, "flow_steps": 3}
SMALL = NETWORKS | {"actor_delay": 2, "update_to_data": 1}


def make(seed: int = 0, **fields: object) -> DSRL:
    return make_dsrl(spec=SPEC, seed=seed, **(SMALL | fields))


def cloned(**fields: object) -> FlowCloning:
    agent = make_flow(spec=SPEC, seed=0, **(NETWORKS | fields))
    agent.fit_normaliser(two_ways(50, 0))
    for step in range(30):
        agent.pretrain(two_ways(agent.config.batch_size, step))
    return agent


def flow_of(agent: DSRL) -> dict[str, np.ndarray]:
    return {name: array for name, array in agent.state().items() if name.startswith(("flow/", "averaged/flow/"))}


def test_the_flow_takes_both_ways_and_the_noise_of_the_actor_the_better_one() -> None:
    agent = make(hidden=[32, 32], learning_rate=1e-2, batch_size=128, tau=0.05, flow_steps=6, actor_delay=60)
    for step in range(200):
        agent.pretrain(two_ways(128, step))
    for step in range(60):
        metrics = agent.update(two_ways(128, step))
    assert metrics["noise_critic_loss"] < 0.05 and "actor_q" not in metrics
    frozen = flow_of(agent)
    for explore in (False, True):
        ways = sampled_chunks(lambda explore=explore: agent.act(ORIGIN, explore=explore))[:, 0]
        assert 25 < np.count_nonzero(ways > 0) < 75, "without an actor, as the flow"
    for step in range(150):
        metrics = agent.update(two_ways(128, step))
    assert metrics["actor_q"] > 0.8
    for explore in (False, True):
        ways = sampled_chunks(lambda explore=explore: agent.act(ORIGIN, explore=explore))[:, 0]
        assert np.count_nonzero(ways > 0) > 90
        assert np.abs(ways[ways > 0] - 0.6).mean() < 0.2, "near what the data contain"
    assert len(np.unique(sampled_chunks(lambda: agent.act(ORIGIN, explore=False)), axis=0)) == 1
    for name, array in flow_of(agent).items():
        np.testing.assert_array_equal(array, frozen[name], err_msg=name)
        np.testing.assert_array_equal(array, frozen[f"averaged/{name.removeprefix('averaged/')}"], err_msg=name)


def test_it_starts_from_a_cloned_flow_and_acts_as_this_until_the_actor_learns() -> None:
    other, agent = cloned(), make(seed=0)
    assert agent.start_from(other, critics=False) == ("policy", "normalisation")
    agent.update(two_ways(16, 0))
    fresh = cloned()  # with the generator of evaluations in its initial state
    for _ in range(6):
        np.testing.assert_array_equal(agent.act(ORIGIN, explore=False), fresh.act(ORIGIN, explore=False))
    assert agent.decision().noise_size == 2
    for step in range(2):
        agent.update(two_ways(16, step))
    assert agent.decision().noise_size == 0
    for name, array in other.state().items():
        if name.startswith(("averaged/flow/", "normaliser/")):
            np.testing.assert_array_equal(agent.state()[name], array, err_msg=name)


def test_starts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"agent\.flow_steps: expected 4, found 3"):
        make().start_from(cloned(flow_steps=4), critics=False)
    with pytest.raises(ConfigError, match="agent FlowCloning has no critics to start from"):
        make().start_from(cloned(), critics=True)
    with pytest.raises(ConfigError, match="expected agent FQL, found DSRL"):
        make().start_from(make_fql(spec=SPEC, seed=0, **NETWORKS), critics=False)


def test_it_continues_another_agent_of_its_kind() -> None:
    other, agent = make(), make(seed=1)
    for step in range(5):
        other.update(two_ways(16, step))
    assert agent.start_from(other, critics=True) == ("policy", "critics")
    one, two = agent.state(), other.state()
    for name in one:
        if name.startswith(("actor/", "flow/", "critic/", "noise_critic/", "temperature/", "averaged/", "steered")):
            np.testing.assert_array_equal(one[name], two[name], err_msg=name)


def test_critics_of_noise_and_actor_descend_their_losses() -> None:
    """Adam's first moments after one step are a tenth of the gradient; networks hardly move before it is taken."""
    agent = make(actor_delay=0, learning_rate=1e-9, normalise_observations=False, initial_temperature=0.3)
    state, rows = agent.state(), two_ways(16, 0)
    for name in state:
        if name.startswith("flow/"):  # frozen from its average
            state[f"averaged/{name}"] = state[name]
    agent.load(state)
    metrics = agent.update(rows)
    source = torch.Generator()
    source.set_state(torch.from_numpy(state["generator/update"]))
    torch.randn(16, 2, generator=source)  # of the target
    noise, draws = torch.randn(16, 2, generator=source), torch.randn(16, 2, generator=source)
    observation = torch.from_numpy(rows["observation/state"])
    networks = {name: torch.from_numpy(array) for name, array in state.items() if "/" in name}
    names = [name for name in networks if name.startswith("noise_")]
    count = len(names)
    names += [name for name in networks if name.startswith("actor/")]
    trained = [networks[name].requires_grad_() for name in names]
    chunk = sample_flow(networks, observation, noise, agent.config)
    target = critic_values(networks, "critic", observation, chunk, "gelu")
    values = critic_values(networks, "noise_critic", observation, noise, "gelu")
    distance = (values - target).square().mean(1).sum()
    sampled, log_density = sample_action(*actor_distribution(networks, observation, "gelu"), draws)
    value = critic_values(networks, "noise_critic", observation, 1.5 * sampled, "gelu").amin(0).mean()
    gradients = torch.autograd.grad(distance, trained[:count], retain_graph=True)
    gradients += torch.autograd.grad(0.3 * log_density.mean() - value, trained[count:])
    assert metrics["noise_critic_loss"] == pytest.approx(distance.item() / 2, rel=1e-4)
    assert metrics["actor_q"] == pytest.approx(value.item(), rel=1e-4, abs=1e-6)
    assert metrics["entropy"] == pytest.approx(-log_density.mean().item(), rel=1e-4)
    assert metrics["temperature"] == pytest.approx(0.3)
    after = agent.state()
    for name, gradient in zip(names, gradients, strict=True):
        np.testing.assert_allclose(after[f"adam_first/{name}"], 0.1 * gradient, rtol=1e-3, atol=1e-6, err_msg=name)
    expected = 0.1 * 0.3 * metrics["entropy"]  # towards a target of 0
    assert after["adam_first/temperature/log_alpha"][0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("actor_delay", [0, 7])
def test_a_run_continues_bit_for_bit_in_mid_chunk(actor_delay: int) -> None:
    unbroken, resumed = (make(seed=seed, update_to_data=2, actor_delay=actor_delay) for seed in (0, 1))
    unbroken.fit_normaliser(two_ways(50, 0))
    unbroken.pretrain(two_ways(16, 0))
    assert_continues_in_mid_chunk(unbroken, resumed, lambda seed: two_ways(32, seed))


def test_an_exported_policy_is_flow_and_actor() -> None:
    agent, acting = make(), make(seed=1)
    for step in range(5):
        agent.update(two_ways(16, step))
    policy = agent.policy_state()
    assert not any("critic" in name for name in policy)
    acting.load_policy(policy)
    for _ in range(4):
        np.testing.assert_array_equal(agent.act(ORIGIN, explore=False), acting.act(ORIGIN, explore=False))


def test_noise_stays_within_its_bound() -> None:
    policy = make(noise_bound=0.5)._policy
    policy.steer()
    draws, observation = 100 * torch.randn(64, 2), torch.zeros(64, 2)
    mean, log_std = actor_distribution(policy.parameters, observation, "gelu")
    noise = 0.5 * (mean + log_std.exp() * draws).tanh()
    assert 0.49 < noise.abs().max() <= 0.5
    expected = sample_flow(policy.parameters, observation, noise, policy.config)
    torch.testing.assert_close(policy.from_noise(policy.parameters, observation, draws), expected)


def test_refuses_invalid_options() -> None:
    for name, value in (("noise_bound", 0), ("pretrain_steps", 0), ("actor_delay", -1), ("initial_temperature", 0)):
        with pytest.raises(ConfigError, match=rf"agent\.{name}"):
            DSRLConfig(**{name: value})

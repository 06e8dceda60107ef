"""Flow Q-learning: distillation, the better of two ways, targets and gradients by hand, resuming bit for bit."""

import numpy as np
import pytest
import torch

from robo_rl.agents.fql import FQL, FQLConfig, make_fql
from robo_rl.agents.parts.flow import sample_flow
from robo_rl.agents.parts.networks import apply_network, critic_values
from robo_rl.core import ConfigError, DivergenceError

from ..rigs.chunk_rows import ORIGIN, SPEC, assert_continues_in_mid_chunk, sampled_chunks, two_ways

SMALL = {"hidden": [8], "action_chunk": 2, "batch_size": 16, "flow_steps": 3}


def make(seed: int = 0, **fields: object) -> FQL:
    return make_fql(spec=SPEC, seed=seed, **(SMALL | fields))


def test_the_distilled_policy_takes_both_ways_and_with_critics_the_better_one() -> None:
    fields = {"hidden": [32, 32], "learning_rate": 1e-2, "batch_size": 128, "tau": 0.05, "flow_steps": 6}
    agent, faithful = (make(**fields, distillation_weight=weight) for weight in (0.03, 100.0))
    errors = [agent.pretrain(two_ways(128, step))["distillation_loss"] for step in range(150)]
    assert np.mean(errors[-20:]) < 0.2 * np.mean(errors[:5])

    def ways_of(agent: FQL, explore: bool) -> np.ndarray:
        return sampled_chunks(lambda: agent.act(ORIGIN, explore=explore))[:, 0]

    for explore in (False, True):
        ways = ways_of(agent, explore)
        assert 25 < np.count_nonzero(ways > 0) < 75
        assert np.count_nonzero(np.abs(ways) > 0.25) > 70, "few samples lie between the ways"
    faithful.load(agent.state())
    for step in range(50):
        metrics = agent.pretrain_critics(two_ways(128, step))
    for step in range(30):
        faithful.pretrain_critics(two_ways(128, step))
    assert metrics["actor_q"] > 0.8 and metrics["critic_loss"] < 0.05
    for explore in (False, True):
        assert np.count_nonzero(ways_of(agent, explore) > 0) > 90
        assert 25 < np.count_nonzero(ways_of(faithful, explore) > 0) < 75, "a large weight keeps both ways"


def test_a_target_is_the_reward_plus_the_value_of_the_next_chunk_of_the_policy() -> None:
    """The value is that of the averaged critics; after termination there is none."""
    agent = make(batch_size=1, tau=0.1, normalise_observations=False)
    for step in range(30):
        agent.update(two_ways(1, step))
    state = agent.state()
    for number, discount in enumerate([0.0, 0.9]):
        agent.load(state)
        row = two_ways(1, 100 + number) | {"discount": np.array([discount], np.float32)}
        source = torch.Generator()
        source.set_state(torch.from_numpy(state["generator/update"]))
        noise = torch.randn(1, 2, generator=source).double()
        weights = {name: torch.from_numpy(array).double() for name, array in state.items() if array.dtype == np.float32}

        def layers(prefix: str, x: torch.Tensor, member: int | None = None, known: dict = weights) -> torch.Tensor:
            picked = {
                name.removeprefix(prefix): tensor if member is None else tensor[member]
                for name, tensor in known.items()
                if name.startswith(prefix)
            }
            hidden = x @ picked["0/weight"] + picked["0/bias"]
            if "0/scale" in picked:
                hidden = (hidden - hidden.mean()) / (hidden.var(correction=0) + 1e-6).sqrt()
                hidden = hidden * picked["0/scale"] + picked["0/shift"]
            hidden = torch.nn.functional.gelu(hidden, approximate="tanh")
            return hidden @ picked["output/weight"] + picked["output/bias"]

        following = torch.from_numpy(row["next_observation/state"]).double()
        chunk = layers("actor/", torch.cat((following, noise), 1)).clamp(-1, 1)
        pair = torch.cat((following, chunk), 1)
        value = np.mean([float(layers("averaged/critic/", pair, member)) for member in range(2)])
        expected = float(row["reward"][0]) + discount * value
        assert agent.update(row)["target_mean"] == pytest.approx(expected, abs=1e-5)


def test_a_run_continues_bit_for_bit_in_mid_chunk() -> None:
    unbroken, resumed = make(update_to_data=2), make(seed=1, update_to_data=2)
    unbroken.fit_normaliser(two_ways(50, 0))
    unbroken.pretrain(two_ways(16, 0))
    unbroken.pretrain_critics(two_ways(16, 1))
    assert_continues_in_mid_chunk(unbroken, resumed, lambda seed: two_ways(32, seed))


def test_an_exported_policy_is_the_one_step_network_alone() -> None:
    agent, actor = make(), make()
    for step in range(5):
        agent.update(two_ways(16, step))
    policy = agent.policy_state()
    assert not any("critic" in name or "flow" in name for name in policy)
    actor.load_policy(policy)
    for explore in (True, False):
        first, second = (
            sampled_chunks(lambda each=each, explore=explore: each.act(ORIGIN, explore=explore), 5)
            for each in (agent, actor)
        )
        np.testing.assert_array_equal(first, second)
        assert len(np.unique(first)) > 5, "every decision is a sample"


@pytest.mark.parametrize("normalise", [False, True])
def test_the_actor_descends_the_distance_to_the_flow_minus_the_value(normalise: bool) -> None:
    """Adam's first moments after one step are a tenth of the gradient; networks hardly move before it is taken."""
    agent = make(normalise_q=normalise, distillation_weight=0.7, learning_rate=1e-9, normalise_observations=False)
    state, rows = agent.state(), two_ways(16, 0)
    state["actor/output/weight"] *= np.float32(3)  # so that some elements are clipped
    agent.load(state)
    metrics = agent.update(rows)
    source = torch.Generator()
    source.set_state(torch.from_numpy(state["generator/update"]))
    for draw, width in ((torch.randn, 2), (torch.randn, 2), (torch.rand, 1)):  # of the target and of the flow
        draw(16, width, generator=source)
    noise, observation = torch.randn(16, 2, generator=source), torch.from_numpy(rows["observation/state"])
    networks = {name: torch.from_numpy(array) for name, array in state.items() if "/" in name}
    actor = {name: tensor.requires_grad_() for name, tensor in networks.items() if name.startswith("actor/")}
    chunk = apply_network(actor, "actor", torch.cat((observation, noise), 1), "gelu")
    assert 0 < np.count_nonzero(chunk.detach().abs() > 1) < chunk.numel()
    distance = (chunk - sample_flow(networks, observation, noise, agent.config)).square().mean()
    value = critic_values(networks, "critic", observation, chunk.clamp(-1, 1), "gelu").mean(0)
    (0.7 * distance - value.mean() / (value.detach().abs().mean() if normalise else 1)).backward()
    assert metrics["distillation_loss"] == pytest.approx(distance.item(), rel=1e-5)
    assert metrics["actor_q"] == pytest.approx(value.mean().item(), rel=1e-5)
    after = agent.state()
    for name, tensor in actor.items():
        np.testing.assert_allclose(after[f"adam_first/{name}"], 0.1 * tensor.grad, rtol=1e-3, atol=1e-7, err_msg=name)


def test_refuses_invalid_options_and_rows() -> None:
    for name, value in (("distillation_weight", 0), ("flow_steps", 0), ("ensemble_size", 0), ("gamma", 1.1)):
        with pytest.raises(ConfigError, match=rf"agent\.{name}"):
            FQLConfig(**{name: value})
    rows = two_ways(16, 0)
    rows["reward"][0] = np.nan
    with pytest.raises(DivergenceError, match="critic_loss is nan at update 1"):
        make().update(rows)

"""Flow Q-learning: distillation, the rewarded way of two, losses by loops, resuming bit for bit."""

import numpy as np
import pytest
import torch

from robo_rl.agents.fql import FQL, FQLConfig, make_fql
from robo_rl.core import ConfigError, DivergenceError

from ..rigs.chunk_rows import ORIGIN, SPEC, assert_equal_states, sampled_chunks, two_ways

SMALL = {"hidden": [8], "action_chunk": 2, "batch_size": 16, "flow_steps": 3}


def make(seed: int = 0, **fields: object) -> FQL:
    return make_fql(spec=SPEC, seed=seed, **(SMALL | fields))


def test_the_distilled_policy_takes_both_ways_and_with_critics_the_rewarded_one() -> None:
    fields = {"hidden": [32, 32], "learning_rate": 1e-2, "batch_size": 128, "tau": 0.05, "flow_steps": 6}
    agent, faithful = (make(**fields, distillation_weight=weight) for weight in (0.03, 100.0))
    errors = [agent.pretrain(two_ways(128, step))["distillation_loss"] for step in range(250)]
    assert np.mean(errors[-20:]) < 0.2 * np.mean(errors[:5])

    def ways_of(agent: FQL, explore: bool) -> np.ndarray:
        return sampled_chunks(lambda: agent.act(ORIGIN, explore=explore))[:, 0]

    for explore in (False, True):
        ways = ways_of(agent, explore)
        assert 25 < np.count_nonzero(ways > 0) < 75
        assert np.count_nonzero(np.abs(ways) > 0.25) > 75, "few samples lie between the ways"
    faithful.load(agent.state())
    for step in range(100):
        metrics = agent.pretrain_critics(two_ways(128, step))
    for step in range(50):
        faithful.pretrain_critics(two_ways(128, step))
    assert metrics["actor_q"] > 0.8 and metrics["critic_loss"] < 0.05
    for explore in (False, True):
        assert np.count_nonzero(ways_of(agent, explore) > 0) > 90
        assert 25 < np.count_nonzero(ways_of(faithful, explore) > 0) < 75, "a large weight keeps both ways"


def test_a_target_is_the_reward_and_what_the_averaged_critics_say_of_the_policy_s_own_chunk() -> None:
    """After termination the reward alone."""
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


def test_a_run_goes_on_bit_for_bit_in_mid_chunk() -> None:
    unbroken, resumed = make(update_to_data=2), make(seed=1, update_to_data=2)
    unbroken.fit_normaliser(two_ways(50, 0))
    unbroken.pretrain(two_ways(16, 0))
    unbroken.pretrain_critics(two_ways(16, 1))
    unbroken.update(two_ways(32, 1))
    for explore in (True, False, False):
        unbroken.act(ORIGIN, explore=explore)
    resumed.load(unbroken.state())
    for step in range(3):
        for explore in (True, False):
            first, second = (agent.act(ORIGIN, explore=explore) for agent in (unbroken, resumed))
            np.testing.assert_array_equal(first, second)
        assert unbroken.update(two_ways(32, step)) == resumed.update(two_ways(32, step))
    assert_equal_states(unbroken.state(), resumed.state())


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


def test_with_normalised_values_the_scale_of_rewards_does_not_matter_to_the_actor() -> None:
    """Critics whose output layer is a hundred times as large: one step of the actor is the same, or another."""
    for normalise in (True, False):
        moved = []
        for scale in (1.0, 100.0):
            agent = make(normalise_q=normalise, learning_rate=1e-9)  # critics hardly move before the actor does
            state = agent.state()
            for name in ("critic/output/weight", "critic/output/bias"):
                state[name] = state[name] * np.float32(scale)
            agent.load(state)
            agent.update(two_ways(16, 0))
            moved.append(agent.state()["adam_first/actor/0/weight"])
        assert np.allclose(*moved, rtol=1e-3, atol=1e-7) == normalise


def test_refuses_what_makes_no_sense() -> None:
    for name, value in (("distillation_weight", 0), ("flow_steps", 0), ("ensemble_size", 0), ("gamma", 1.1)):
        with pytest.raises(ConfigError, match=rf"agent\.{name}"):
            FQLConfig(**{name: value})
    rows = two_ways(16, 0)
    rows["reward"][0] = np.nan
    with pytest.raises(DivergenceError, match="critic_loss is nan at update 1"):
        make().update(rows)

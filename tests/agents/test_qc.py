"""Q-chunking: the better of two ways, targets computed by loops, resuming bit for bit, and the cloned actions."""

import numpy as np
import pytest
import torch

from robo_rl.agents.qc import QC, QCConfig, make_qc
from robo_rl.core import ConfigError, DivergenceError, State

from ..rigs.chunk_rows import ORIGIN, SPEC, assert_continues_in_mid_chunk, assert_equal_states, sampled_chunks, two_ways

SMALL = {"hidden": [8], "action_chunk": 2, "batch_size": 16, "candidates": 3, "flow_steps": 3, "selection_starts": 0}


def make(seed: int = 0, **fields: object) -> QC:
    return make_qc(spec=SPEC, seed=seed, **(SMALL | fields))


def test_the_best_of_several_samples_is_the_better_way_and_a_single_one_is_either() -> None:
    fields = {"hidden": [32, 32], "learning_rate": 1e-2, "batch_size": 128, "tau": 0.05, "flow_steps": 6}
    best, any_way = make(**fields, candidates=8), make(**fields, candidates=1)
    for step in range(200):
        best.pretrain(two_ways(128, step))
    for step in range(50):
        metrics = best.pretrain_critics(two_ways(128, step))
    assert metrics["critic_loss"] < 0.05 and 0.3 < metrics["target_mean"] < 0.7
    any_way.load(best.state())
    for explore in (False, True):
        chosen, either = (
            sampled_chunks(lambda agent=agent, explore=explore: agent.act(ORIGIN, explore=explore))
            for agent in (best, any_way)
        )
        assert np.count_nonzero((chosen > 0).all(1)) > 95, "all of eight candidates are left once in 256 decisions"
        assert 25 < np.count_nonzero(either[:, 0] > 0) < 75


def layers(state: State, prefix: str, member: int | None, x: np.ndarray) -> np.ndarray:
    """Return the output of a network with one hidden layer and tanh, for one row, in float64."""
    weights = {
        name.removeprefix(prefix): (array if member is None else array[member]).astype(np.float64)
        for name, array in state.items()
        if name.startswith(prefix)
    }
    hidden = x @ weights["0/weight"] + weights["0/bias"]
    if "0/scale" in weights:
        hidden = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-6) * weights["0/scale"] + weights["0/shift"]
    return np.tanh(hidden) @ weights["output/weight"] + weights["output/bias"]


def values_of(state: State, prefix: str, x: np.ndarray) -> list[float]:
    return [float(layers(state, prefix, member, x)[0]) for member in range(2)]


@pytest.mark.parametrize("target_q", ["mean", "min"])
def test_a_target_is_the_reward_plus_the_value_of_the_best_candidate(target_q: str) -> None:
    agent = make(activation="tanh", batch_size=1, target_q=target_q, tau=0.1, normalise_observations=False)
    for step in range(30):  # so that the averages differ from the parameters
        agent.update(two_ways(1, step))
    state, changed, aggregate = agent.state(), 0, np.mean if target_q == "mean" else np.min
    for number, discount in enumerate([0.0, 0.9, 0.81, 0.9]):
        agent.load(state)
        row = two_ways(1, 100 + number) | {"discount": np.array([discount], np.float32)}
        source = torch.Generator()
        source.set_state(torch.from_numpy(state["generator/update"]))
        candidates = torch.randn(3, 2, generator=source).double().numpy()
        following = row["next_observation/state"][0].astype(np.float64)
        for k in range(3):
            for step in range(3):
                time = step / 3
                angles = time * np.pi * 2.0 ** np.arange(4)
                row_of_flow = np.concatenate((following, candidates[k], [time], np.sin(angles), np.cos(angles)))
                candidates[k] += layers(state, "flow/", None, row_of_flow) / 3
        inputs = [np.concatenate((following, candidate)) for candidate in candidates.clip(-1, 1)]
        best = max(range(3), key=lambda k: aggregate(values_of(state, "critic/", inputs[k])))
        changed += best > 0
        expected = row["reward"][0] + discount * aggregate(values_of(state, "averaged/critic/", inputs[best]))
        assert agent.update(row)["target_mean"] == pytest.approx(expected, abs=1e-5)
        if discount == 0:
            assert expected == row["reward"][0]
    assert changed, "some candidate but the first was the best"


def test_a_run_continues_bit_for_bit_in_mid_chunk() -> None:
    unbroken, resumed = make(update_to_data=2), make(seed=1, update_to_data=2)
    unbroken.fit_normaliser(two_ways(50, 0))
    unbroken.pretrain(two_ways(16, 0))
    unbroken.pretrain_critics(two_ways(16, 1))
    assert unbroken.update_rows == 32
    assert_continues_in_mid_chunk(unbroken, resumed, lambda seed: two_ways(32, seed))


def test_an_exported_policy_chooses_as_its_agent_does() -> None:
    agent, actor = make(), make(seed=0)
    for step in range(5):
        agent.update(two_ways(16, step))
    actor.load_policy(agent.policy_state())
    for explore in (True, False):
        first, second = (
            sampled_chunks(lambda each=each, explore=explore: each.act(ORIGIN, explore=explore), 5)
            for each in (agent, actor)
        )
        np.testing.assert_array_equal(first, second)
        assert len(np.unique(first)) > 5, "every decision is a sample"


def test_it_clones_proposed_actions_of_demonstrations_and_executed_actions_of_other_rows() -> None:
    rows = two_ways(16, 0)
    other = {"proposed_action": -rows["action"]}
    for marks, proposed in ((0.0, rows["action"]), (1.0, -rows["action"]), (0.5, -rows["action"])):
        agent, expected = make(), make()
        agent.update(rows | other | {"demonstration": np.full(16, marks, np.float32)})
        expected.update(rows | {"proposed_action": proposed})
        assert_equal_states(agent.state(), expected.state())


def test_refuses_invalid_options_and_rows() -> None:
    for name, value in (
        ("candidates", 0),
        ("ensemble_size", 0),
        ("target_q", "max"),
        ("tau", 0),
        ("demonstration_ratio", 1.1),
        ("offline_steps", -1),
        ("action_chunk", 0),
    ):
        with pytest.raises(ConfigError, match=rf"agent\.{name}"):
            QCConfig(**{name: value})
    rows = two_ways(16, 0)
    rows["reward"][0] = np.nan
    with pytest.raises(DivergenceError, match="critic_loss is nan at update 1"):
        make().update(rows)
    with pytest.raises(DivergenceError, match=r"agent\.q_limit is 1e-05"):
        make(q_limit=1e-5).update(two_ways(16, 0))
    rows["proposed_action"] = np.full((16, 2), np.nan, np.float32)
    with pytest.raises(DivergenceError, match="flow_loss is nan at update 1"):
        make().pretrain(rows)

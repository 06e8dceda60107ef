"""The agent: actions, state, normalisation, divergence, and that it learns."""

import numpy as np
import pytest
import torch
from scipy import linalg

from robo_rl.agents.sac import SAC, SACConfig, make_sac
from robo_rl.core import ArraySpec, CheckpointError, ConfigError, DivergenceError

from ..rigs.specs import toy_spec

SMALL = {
    "ensemble_size": 3,
    "hidden": [16, 16],
    "update_to_data": 2,
    "batch_size": 8,
    "implementation": "torch",
    "normalise_observations": False,
}


def make_spec(state=3, action=2, **more):
    return toy_spec({"state": ArraySpec((state,)), **more}, action)


SPEC = make_spec(object=ArraySpec((2,)), **{"images/front": ArraySpec((4, 4, 3), "uint8")})


def make_batch(rows, seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    batch = {f"{group}/state": normal(rows, 3) for group in ("observation", "next_observation")}
    batch |= {f"{group}/object": 5 + 3 * normal(rows, 2) for group in ("observation", "next_observation")}
    return batch | {
        "action": np.tanh(normal(rows, 2)),
        "proposed_action": np.tanh(normal(rows, 2)),
        "reward": normal(rows),
        "discount": np.full(rows, 0.9, np.float32),
        "demonstration": (np.arange(rows) % 2).astype(np.float32),
        "online_example": (np.arange(rows) % 4 == 0).astype(np.float32),
    }


def observation_of(batch, row=0):
    return {k.removeprefix("observation/"): v[row] for k, v in batch.items() if k.startswith("observation/")}


def make(seed=0, **fields):
    return make_sac(spec=SPEC, seed=seed, **(SMALL | fields))


def same(one, other):
    assert one.keys() == other.keys()
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_equal_seeds_learn_equally_and_others_do_not():
    states = []
    for seed in (0, 0, 1):
        agent = make(seed)
        for k in range(3):
            agent.update(make_batch(agent.update_rows, k))
        states.append(agent.state())
    assert same(states[0], states[1])
    assert not same(states[0], states[2])


@pytest.mark.parametrize("fields", [{"implementation": "torch"}, {"implementation": "auto"}])
def test_an_agent_goes_on_from_its_state_bit_for_bit(fields):
    unbroken = make(normalise_observations=True, **fields)
    unbroken.fit_normaliser(make_batch(50))
    unbroken.pretrain(make_batch(8))
    unbroken.update(make_batch(unbroken.update_rows))
    state = unbroken.state()
    kept = {name: array.copy() for name, array in state.items()}

    resumed = make(seed=5, normalise_observations=True, **fields)
    resumed.load(state)
    observation = observation_of(make_batch(1))
    for agent in (unbroken, resumed):
        agent.act(observation, explore=True)
    for k in range(3):
        batch = make_batch(unbroken.update_rows, k)
        assert unbroken.update(batch) == resumed.update(batch)
        assert unbroken.pretrain(make_batch(8)) == resumed.pretrain(make_batch(8))
        for explore in (True, False):
            np.testing.assert_array_equal(
                unbroken.act(observation, explore=explore), resumed.act(observation, explore=explore)
            )
    assert same(unbroken.state(), resumed.state())
    assert same(state, kept), "a state is a copy; learning must not change it"


def test_exploration_does_not_disturb_the_updates():
    quiet, busy = make(), make()
    observation = observation_of(make_batch(1))
    for k in range(2):
        busy.act(observation, explore=True)
        batch = make_batch(quiet.update_rows, k)
        assert quiet.update(batch) == busy.update(batch)


def test_another_agent_with_the_policy_state_acts_the_same():
    teacher = make(normalise_observations=True)
    teacher.fit_normaliser(make_batch(50))
    teacher.update(make_batch(teacher.update_rows))
    pupil = make(seed=9, normalise_observations=True)
    pupil.load_policy(teacher.policy_state())
    observation = observation_of(make_batch(1))
    np.testing.assert_array_equal(teacher.act(observation, explore=False), pupil.act(observation, explore=False))
    assert not any("critic" in name or "adam" in name for name in teacher.policy_state())


def test_a_state_of_another_agent_is_refused_and_changes_nothing():
    agent = make()
    before = agent.state()
    with pytest.raises(
        CheckpointError, match=r"'actor/0/bias' should be float32 \(16,\), the state has float32 \(4,\)"
    ):
        agent.load(make(hidden=[4, 16]).state())
    with pytest.raises(CheckpointError, match="the state holds 'actor/2/bias', which the agent does not have"):
        agent.load(make(hidden=[16, 16, 16]).state())
    with pytest.raises(CheckpointError, match="the policy needs 'actor/1/bias', which the state lacks"):
        agent.load_policy(make(hidden=[16]).policy_state())
    without = {name: array for name, array in agent.state().items() if name != "generator/update"}
    with pytest.raises(CheckpointError, match="'generator/update', which the state lacks"):
        agent.load(without)
    assert same(agent.state(), before)


def test_actions_are_samples_of_the_policy_and_its_mode():
    agent = make()
    rng = np.random.default_rng(0)
    state = agent.state()
    for actor in ("actor", "averaged/actor"):
        state[f"{actor}/output/bias"] = np.array([0.3, -2.0, -1.0, -1.0], np.float32)
        state[f"{actor}/output/weight"] = np.zeros_like(state[f"{actor}/output/weight"])
    agent.load(state)
    observation = {"state": rng.normal(size=3).astype(np.float32), "object": rng.normal(size=2).astype(np.float32)}
    mode = agent.act(observation, explore=False)
    assert mode.dtype == np.float32
    np.testing.assert_allclose(mode, np.tanh([0.3, -2.0]), rtol=1e-6)
    samples = np.arctanh([agent.act(observation, explore=True) for _ in range(4000)])
    np.testing.assert_allclose(samples.mean(0), [0.3, -2.0], atol=0.03)
    np.testing.assert_allclose(samples.std(0), np.exp([-1, -1]), rtol=0.05)


def test_the_average_of_the_actor_acts_where_nothing_is_explored():
    agent = make(actor_tau=0.25)
    names = [name for name in agent.state() if name.startswith("actor/")]
    expected = {name: agent.state()[name].astype(np.float64) for name in names}
    for k in range(3):
        agent.update(make_batch(agent.update_rows, k))
        expected = {name: 0.75 * expected[name] + 0.25 * agent.state()[name] for name in names}
    state = agent.state()
    for name in names:
        np.testing.assert_allclose(state[f"averaged/{name}"], expected[name], rtol=1e-5, atol=1e-7)
        assert not np.array_equal(state[f"averaged/{name}"], state[name])
    observation = observation_of(make_batch(1))
    mode = agent.act(observation, explore=False)
    agent.load_policy(agent.policy_state() | {name: np.zeros_like(state[name]) for name in names})
    np.testing.assert_array_equal(agent.act(observation, explore=False), mode)
    # Cloning has no bad steps to forgive: its newest parameters act.
    clone = make(actor_tau=0.25)
    clone.pretrain(make_batch(8))
    assert all(np.array_equal(clone.state()[f"averaged/{name}"], clone.state()[name]) for name in names)


def test_images_are_left_out_and_keys_are_checked():
    assert make().state()["actor/0/weight"].shape == (5, 16)
    assert make(observation_keys=["object"]).state()["actor/0/weight"].shape == (2, 16)
    with pytest.raises(ConfigError, match="unknown vector observation 'objct'; did you mean 'object'"):
        make(observation_keys=["objct"])
    with pytest.raises(ConfigError, match="unknown vector observation 'images/front'"):
        make(observation_keys=["images/front"])


def test_normalised_agent_sees_standard_scores():
    demonstrations = make_batch(5000)
    demonstrations["observation/state"][:, 1] = 0.5  # never moves
    raw, normalised = make(), make(normalise_observations=True)
    normalised.fit_normaliser(demonstrations)
    assert normalised.state()["normaliser/scale"].min() == np.float32(0.02)
    raw.load_policy(raw.policy_state() | {k: v for k, v in normalised.state().items() if k.startswith("actor/")})
    joined = np.concatenate([demonstrations["observation/object"], demonstrations["observation/state"]], axis=1)
    scale = np.maximum(joined.std(0, dtype=np.float64), 0.02)
    observation = {"object": np.float32([7, 4]), "state": np.float32([0.3, 0.6, 1e4])}
    scores = (np.concatenate([observation["object"], observation["state"]]) - joined.mean(0, dtype=np.float64)) / scale
    assert scores[3] == pytest.approx(5, abs=1e-4)
    scores = np.clip(scores, -10, 10).astype(np.float32)
    np.testing.assert_allclose(
        normalised.act(observation, explore=False),
        raw.act({"object": scores[:2], "state": scores[2:]}, explore=False),
        rtol=1e-4,
    )
    assert observation["object"].tolist() == [7, 4], "the observation belongs to the caller"


def test_a_value_is_the_mean_of_the_critics():
    agent = make()
    state = agent.state()
    observation = observation_of(make_batch(1))
    action = np.array([0.3, -0.6], np.float32)
    row = np.concatenate([observation["object"], observation["state"], action]).astype(np.float64)
    values = []
    for critic in range(agent.config.ensemble_size):
        x, layer = row, 0
        while f"critic/{layer}/weight" in state:
            x = x @ state[f"critic/{layer}/weight"][critic] + state[f"critic/{layer}/bias"][critic]
            if f"critic/{layer}/scale" in state:
                x = (x - x.mean()) / np.sqrt(x.var() + 1e-6)
                x = x * state[f"critic/{layer}/scale"][critic] + state[f"critic/{layer}/shift"][critic]
            x, layer = np.maximum(x, 0), layer + 1
        output = x @ state["critic/output/weight"][critic] + state["critic/output/bias"][critic]
        values.append(output.item())
    assert agent.value(observation, action) == pytest.approx(np.mean(values), rel=1e-4, abs=1e-5)


def test_normalisation_cannot_change_once_the_agent_has_learned():
    agent = make(normalise_observations=True)
    agent.fit_normaliser(make_batch(20))
    agent.update(make_batch(agent.update_rows))
    with pytest.raises(RuntimeError, match="once the agent has learned"):
        agent.fit_normaliser(make_batch(20))


@pytest.mark.parametrize("implementation", ["torch", "auto"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_ends_training(implementation, value):
    agent = make(implementation=implementation)
    agent.update(make_batch(agent.update_rows))
    batch = make_batch(agent.update_rows)
    batch["reward"][3] = value
    with pytest.raises(DivergenceError, match=r"training diverged: .* is (nan|inf|-inf) at update 2"):
        agent.update(batch)


def test_exploding_values_end_training():
    agent = make(q_limit=50)
    state = agent.state()
    state["critic/output/bias"][1] = -200
    agent.load(state)
    message = "magnitude .* at update 1, agent.q_limit is 50.*raise agent.q_limit"
    with pytest.raises(DivergenceError, match=message):
        agent.update(make_batch(agent.update_rows))


def test_an_actor_spoiled_by_the_last_step_is_noticed_at_once():
    agent = make()
    agent._state.moments()["adam_second/actor/0/weight"][0, 0] = -1.0  # its square root is not a number
    with pytest.raises(DivergenceError, match="actor/0/weight is not finite after update 1"):
        agent.update(make_batch(agent.update_rows))


def test_learns_the_better_arm_of_a_bandit_and_its_value():
    """One step, reward 1 - |a - 0.4|: the best action is 0.4 and its value 1, whatever is observed."""
    settings = {"actor_learning_rate": 3e-3, "critic_learning_rate": 3e-3, "temperature_learning_rate": 0.02}
    settings |= {"update_to_data": 4, "batch_size": 64, "actor_tau": 0.1, "target_entropy": -3.0, "cloning_weight": 0}
    one = make_spec(state=1, action=1)
    agent = SAC(SACConfig(**(SMALL | settings | {"final_cloning_weight": 0})), one, 0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        state = rng.uniform(-1, 1, (agent.update_rows, 1)).astype(np.float32)
        action = rng.uniform(-1, 1, (agent.update_rows, 1)).astype(np.float32)
        agent.update(
            {
                "observation/state": state,
                "action": action,
                "proposed_action": action,
                "reward": 1 - np.abs(action[:, 0] - 0.4),
                "discount": np.zeros(agent.update_rows, np.float32),
                "next_observation/state": state,
                "demonstration": np.zeros(agent.update_rows, np.float32),
                "online_example": np.zeros(agent.update_rows, np.float32),
            }
        )
    for seen in np.linspace(-0.8, 0.8, 5, dtype=np.float32):
        observation = {"state": seen[None]}
        assert agent.act(observation, explore=False)[0] == pytest.approx(0.4, abs=0.1)
        for tried in (-0.6, -0.1, 0.9):
            found = agent.value(observation, np.array([tried], np.float32))
            assert found == pytest.approx(1 - abs(tried - 0.4), abs=0.06)


@pytest.mark.parametrize("implementation", ["torch", "auto"])
def test_learns_the_optimal_controller_of_a_linear_system(implementation):
    """s' = s + a / 2, reward -(s^2 + a^2 / 10): the optimal action is linear in s, by the Riccati equation."""
    gamma = 0.8
    agent = SAC(
        SACConfig(
            ensemble_size=2,
            hidden=(64, 64),
            update_to_data=4,
            batch_size=128,
            actor_learning_rate=2e-3,
            critic_learning_rate=2e-3,
            temperature_learning_rate=1e-2,
            tau=0.05,
            actor_tau=0.05,
            gamma=gamma,
            initial_log_std=-1.0,
            initial_temperature=0.01,
            actor_q="mean",
            target_entropy=-4.0,
            normalise_observations=False,
            implementation=implementation,
        ),
        make_spec(state=1, action=1),
        seed=0,
    )
    rng = np.random.default_rng(0)
    for _ in range(250):
        state = rng.uniform(-1, 1, (agent.update_rows, 1)).astype(np.float32)
        action = rng.uniform(-1, 1, (agent.update_rows, 1)).astype(np.float32)
        metrics = agent.update(
            {
                "observation/state": state,
                "action": action,
                "proposed_action": action,
                "reward": -(state**2 + 0.1 * action**2)[:, 0],
                "discount": np.full(agent.update_rows, gamma, np.float32),
                "next_observation/state": state + 0.5 * action,
                "demonstration": np.zeros(agent.update_rows, np.float32),
                "online_example": np.zeros(agent.update_rows, np.float32),
            }
        )
    # Discounting by gamma is scaling A and B by its root.
    a, b = np.array([[1.0]]) * gamma**0.5, np.array([[0.5]]) * gamma**0.5
    p = linalg.solve_discrete_are(a, b, np.array([[1.0]]), np.array([[0.1]]))
    gain = (np.linalg.solve(0.1 + b.T @ p @ b, b.T @ p @ a)).item()
    states = np.linspace(-0.4, 0.4, 9, dtype=np.float32)
    found = np.array([agent.act({"state": states[i : i + 1]}, explore=False)[0] for i in range(len(states))])
    np.testing.assert_allclose(found, -gain * states, atol=0.15)  # updates in bfloat16 are coarser
    assert np.polyfit(states, found, 1)[0] == pytest.approx(-gain, rel=0.1)
    assert metrics["critic_loss"] < 1e-2


def test_sampled_actions_are_sampled_in_evaluations_and_leave_exploration_alone():
    batch = make_batch(SMALL["update_to_data"] * SMALL["batch_size"])
    observation = observation_of(batch)
    agent, mode = make(sampled_actions=True), make()
    own = [agent.act(observation, explore=False) for _ in range(200)]
    # The averaged policy decides, with the standard deviation of the network's output.
    assert np.std(np.arctanh(own), axis=0) == pytest.approx(np.full(2, np.exp(-2.0)), rel=0.2)
    assert same_actions(agent, mode, observation), "evaluations drew from the noise of exploration"
    state = agent.state()
    following = agent.act(observation, explore=False)
    resumed = make(seed=1, sampled_actions=True)
    resumed.load(state)
    np.testing.assert_array_equal(resumed.act(observation, explore=False), following)


def same_actions(one, other, observation):
    return np.array_equal(one.act(observation, explore=True), other.act(observation, explore=True))


def test_a_decision_with_sampled_actions_is_a_function_of_noise():
    agent = make(sampled_actions=True)
    observation = observation_of(make_batch(16))
    decision = agent.decision()
    assert decision.noise_size == 2
    inputs = {key: torch.from_numpy(value) for key, value in observation.items()}
    centre, shifted = (decision.compute(inputs, noise).arctanh() for noise in (torch.zeros(2), torch.ones(2)))
    np.testing.assert_allclose((shifted - centre).numpy(), np.full((1, 2), np.exp(-2.0)), rtol=0.2)
    assert make().decision().noise_size == 0

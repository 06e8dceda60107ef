"""Critics pretrained on demonstrations: losses by loops in float64, values known in closed form, state, refusals."""

import math

import numpy as np
import pytest
import torch

from robo_rl.agents.drq import DrQConfig
from robo_rl.agents.parts.networks import initialise_network
from robo_rl.agents.sac import SACConfig, make_sac
from robo_rl.agents.sac.critic_pretraining import CANDIDATES, CalQL, Candidates, cal_ql_loss
from robo_rl.agents.sac.update import Minibatches
from robo_rl.core import ArraySpec, ConfigError, DivergenceError

from ..rigs.specs import toy_spec

LENGTH, GAMMA = 4, 0.9
SPEC = toy_spec({"state": ArraySpec((LENGTH,))}, 1)
SMALL = {
    "ensemble_size": 3,
    "hidden": [32, 32],
    "update_to_data": 2,
    "batch_size": 32,
    "implementation": "torch",
    "device": "cpu",
    "gamma": GAMMA,
    "normalise_observations": False,
    "pretrain_critics": "cal_ql",
}


def make(seed=0, spec=SPEC, **fields):
    return make_sac(spec=spec, seed=seed, **(SMALL | fields))


def chain(seed, action=0.8, rows=32):
    """Rows of a chain that is walked by ``action``, each of a state of its own, with a reward of 1 at the end."""
    place = np.random.default_rng(seed).integers(0, LENGTH, rows)
    states, last = np.eye(LENGTH, dtype=np.float32), place == LENGTH - 1
    actions = np.full((rows, 1), action, np.float32)
    return {
        "observation/state": states[place],
        "next_observation/state": states[np.minimum(place + 1, LENGTH - 1)],
        "action": actions,
        "proposed_action": actions.copy(),
        "reward": last.astype(np.float32),
        "discount": np.where(last, 0, GAMMA).astype(np.float32),
        "demonstration": np.ones(rows, np.float32),
        "online_example": np.zeros(rows, np.float32),
        "return_to_go": (GAMMA ** (LENGTH - 1 - place)).astype(np.float32),
    }


EARNED = GAMMA ** (LENGTH - 1 - np.arange(LENGTH))


def values(agent, action):
    """Return the mean value of ``action`` in each state of the chain."""
    states = np.eye(LENGTH, dtype=np.float32)
    return np.array([agent.value({"state": state}, np.array([action], np.float32)) for state in states])


def test_the_loss_of_cal_ql_is_that_of_a_loop_over_everything():
    """Also its gradient, by finite differences; some candidates are above their floor and some below."""
    config = SACConfig(ensemble_size=2, target_subset=1, hidden=(5,), layer_norm=False, conservative_weight=0.7)
    source, rows, others, temperature = torch.Generator().manual_seed(0), 4, 6, 0.3
    critic = initialise_network("critic", (3, 5, 1), source, layer_norm=False, output_gain=1.0, ensemble=2)
    critic = {name: tensor.double() for name, tensor in critic.items()}

    def normal(*shape):
        return torch.randn(*shape, generator=source, dtype=torch.float64)

    observation, action, target = normal(rows, 2), normal(rows, 1).tanh(), normal(rows)
    none = torch.zeros(rows, dtype=torch.float64)
    batch = Minibatches(observation, action, none, none, observation, none, action)
    floor = normal(others, rows)
    floor[:2] = -math.inf
    candidates = Candidates(normal(others, rows, 1).tanh(), normal(others, rows), floor)

    def value(parameters, member, row, a):
        weights = {name: tensor[member].numpy() for name, tensor in parameters.items()}
        x = np.array([*observation[row].tolist(), a])
        hidden = np.maximum(x @ weights["critic/0/weight"] + weights["critic/0/bias"], 0)
        return float(hidden @ weights["critic/output/weight"][:, 0] + weights["critic/output/bias"][0])

    floored = set()

    def expected(parameters):
        loss = 0.0
        for member in range(2):
            for row in range(rows):
                shown = value(parameters, member, row, float(action[row, 0]))
                total = 0.0
                for k in range(others):
                    q = value(parameters, member, row, float(candidates.action[k, row, 0]))
                    if k >= 2:
                        floored.add(q < float(floor[k, row]))
                    q = max(q, float(floor[k, row]))
                    total += math.exp(q / temperature) / math.exp(float(candidates.log_density[k, row]))
                gap = temperature * math.log(total / others) - shown
                loss += ((shown - float(target[row])) ** 2 + 0.7 * gap) / rows
        return loss

    def loss(parameters):
        return cal_ql_loss(parameters, config, batch, target, candidates, torch.tensor(temperature))[0]

    gradients, found = torch.func.grad_and_value(loss)(critic)
    assert float(found) == pytest.approx(expected(critic), rel=1e-9)
    assert floored == {True, False}
    for name, tensor in critic.items():
        for index in np.ndindex(*tensor.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = {other: values.clone() for other, values in critic.items()}
                moved[name][index] += step
                ends.append(expected(moved))
            assert float(gradients[name][index]) == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6)


def test_candidates_are_of_three_kinds_and_know_their_densities():
    agent = make(initial_log_std=-0.5)
    rows = Minibatches(*(field[0] for field in agent._minibatches(chain(0), 1)))
    phase = agent._critic_pretraining
    assert isinstance(phase, CalQL)
    here, there = (phase._distribution(each) for each in (rows.observation, rows.next_observation))
    earned = torch.from_numpy(chain(0)["return_to_go"])
    found = phase._candidates(rows, there, earned)
    kinds = [tuple(field[k * CANDIDATES : (k + 1) * CANDIDATES] for field in found) for k in range(3)]
    action, log_density, floor = kinds[0]
    assert action.abs().max() <= 1 and action.std() == pytest.approx(3**-0.5, rel=0.2)
    torch.testing.assert_close(log_density, torch.full_like(log_density, math.log(0.5)))
    assert (floor == -math.inf).all()
    for (action, log_density, floor), (mean, log_std) in zip(kinds[1:], (here, there), strict=True):
        gaussian = torch.distributions.Normal(mean, log_std.exp())
        tanh = torch.distributions.TanhTransform()
        density = torch.distributions.TransformedDistribution(gaussian, [tanh]).log_prob(action).sum(-1)
        torch.testing.assert_close(log_density, density, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(floor, earned.expand(CANDIDATES, -1))


def test_cal_ql_knows_the_values_of_demonstrations_and_raises_no_others():
    agent = make(layer_norm=False, conservative_weight=0.02, critic_learning_rate=3e-3, tau=0.05)
    for seed in range(200):
        agent.pretrain(chain(seed))
    for seed in range(400):
        metrics = agent.pretrain_critics(chain(seed))
    np.testing.assert_allclose(values(agent, 0.8), EARNED, atol=0.03)
    for other in np.linspace(-1, 1, 21):
        assert (values(agent, other) <= EARNED + 0.1).all()
    assert (values(agent, -0.8) < EARNED - 0.1).all()
    assert metrics.keys() == {*agent.metrics, "conservative_gap"}
    state = agent.state()
    assert not any(array.any() for name, array in state.items() if name.startswith("adam_"))
    for name in (name for name in state if name.startswith("critic/")):
        np.testing.assert_allclose(state[f"target_{name}"], state[name], atol=0.1)


def test_the_values_of_the_policy_fall_no_lower_than_what_was_earned():
    """All actions are worth the same, and known to be; then only one, which the policy does not take, is shown."""
    options = {"critic_learning_rate": 1e-3, "actor_learning_rate": 1e-9, "tau": 0.05}
    knowing = make(conservative_weight=0.0, **options)
    for seed in range(400):
        action = np.random.default_rng(seed).uniform(-1, 1, (32, 1))
        knowing.pretrain_critics(chain(seed, action))
    np.testing.assert_allclose(values(knowing, 0.0), EARNED, atol=0.05)
    fallen = {}
    for calibrated in (True, False):
        agent = make(conservative_weight=0.1, **options)
        agent.load(knowing.state())
        for seed in range(150):
            batch = chain(seed)
            if not calibrated:
                batch["return_to_go"][:] = -1e6
            agent.pretrain_critics(batch)
        fallen[calibrated] = (EARNED - values(agent, 0.0)).max()
    assert fallen[True] < 0.25
    assert fallen[False] > 0.6


def test_iql_comes_to_the_closed_form():
    """On the chain; at its end a second action earns nothing: an expectile of one 0 and one 1 is its own share."""
    agent = make(pretrain_critics="iql", critic_learning_rate=3e-3, tau=0.05, expectile=0.8, batch_size=64)
    policy = agent.policy_state()
    for seed in range(800):
        batch, other = chain(seed), chain(seed, action=-0.8)
        other["reward"][:] = 0
        both = {name: np.concatenate((batch[name], other[name])) for name in batch}
        metrics = agent.pretrain_critics(both)
    expected = 0.8 * GAMMA ** (LENGTH - 1 - np.arange(LENGTH))
    np.testing.assert_allclose(values(agent, 0.8)[:-1], expected[:-1], atol=0.03)
    np.testing.assert_allclose(values(agent, -0.8)[:-1], expected[:-1], atol=0.03)
    assert values(agent, 0.8)[-1] == pytest.approx(1, abs=0.03)
    assert values(agent, -0.8)[-1] == pytest.approx(0, abs=0.03)
    assert metrics["value_mean"] == pytest.approx(expected[chain(799)["observation/state"].argmax(1)].mean(), abs=0.03)
    assert all(np.array_equal(array, policy[name]) for name, array in agent.policy_state().items())
    with pytest.raises(KeyError):
        metrics["actor_loss"]


@pytest.mark.parametrize("kind", ["cal_ql", "iql"])
@pytest.mark.parametrize("implementation", ["torch", "auto"])
def test_it_goes_on_bit_for_bit_and_into_online_updates(kind, implementation):
    unbroken, resumed = (
        make(seed, pretrain_critics=kind, implementation=implementation, offline_steps=7) for seed in (0, 5)
    )
    assert unbroken.offline_steps == 7
    unbroken.fit_normaliser(chain(0))
    unbroken.pretrain(chain(1))
    unbroken.pretrain_critics(chain(2))
    resumed.load(unbroken.state())
    assert unbroken.pretrain_critics(chain(3)) == resumed.pretrain_critics(chain(3))
    batch = chain(4, rows=unbroken.update_rows)
    before = unbroken.state()["critic/0/weight"]
    assert unbroken.update(batch) == resumed.update(batch)
    assert (unbroken.state()["critic/0/weight"] != before).any()
    one, other = unbroken.state(), resumed.state()
    assert one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
    with pytest.raises(RuntimeError, match="cannot change"):
        unbroken.fit_normaliser(chain(0))


def test_without_it_nothing_is_kept_or_done():
    agent = make(pretrain_critics="none")
    assert agent.offline_steps == 0
    assert not any("offline" in name for name in agent.state())
    with pytest.raises(RuntimeError, match=r"agent\.pretrain_critics is none"):
        agent.pretrain_critics(chain(0))


@pytest.mark.parametrize("kind", ["cal_ql", "iql"])
def test_divergence_is_named(kind):
    agent = make(pretrain_critics=kind)
    with pytest.raises(DivergenceError, match="critic_loss is nan at offline step 1"):
        agent.pretrain_critics(chain(0) | {"reward": np.full(32, np.nan, np.float32)})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pretrain_critics": "calql"}, "unknown agent.pretrain_critics 'calql'; did you mean 'cal_ql'"),
        ({"pretrain_critics": "iql", "demonstration_ratio": 0.0}, r"above 0 with agent.pretrain_critics=iql.*, got 0"),
        ({"offline_steps": -1}, "agent.offline_steps must be 0 or more, got -1"),
        ({"conservative_weight": -1.0}, "agent.conservative_weight must be 0 or more, got -1"),
        ({"expectile": 1.0}, r"agent.expectile must be in \[0.5, 1\), got 1"),
    ],
)
def test_values_out_of_range_are_named(fields, message):
    with pytest.raises(ConfigError, match=message):
        SACConfig(**fields)


def test_agents_that_see_images_refuse():
    with pytest.raises(ConfigError, match=r"agent\.pretrain_critics must be none for an agent that learns from images"):
        DrQConfig(pretrain_critics="cal_ql")


@pytest.mark.parametrize("kind", ["cal_ql", "iql"])
def test_residual_critics_with_bins_are_pretrained_too(kind):
    bins = {"value_bins": 61, "value_range": [-0.1, 1.1], "network": "simba", "hidden": [16]}
    agent = make(pretrain_critics=kind, conservative_weight=0.02, critic_learning_rate=3e-3, tau=0.05, **bins)
    for seed in range(100):
        agent.pretrain(chain(seed))
    for seed in range(400):
        agent.pretrain_critics(chain(seed))
    np.testing.assert_allclose(values(agent, 0.8), EARNED, atol=0.06)

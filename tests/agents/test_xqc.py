"""XQC, CrossQ and SimbaV2: losses against formulas written out in NumPy, weights of length 1, schedules, resuming."""

from typing import Any

import numpy as np
import pytest
import torch

from robo_rl.agents.parts.device import map_tensors
from robo_rl.agents.parts.offline_agent import Rows
from robo_rl.agents.xqc import XQC, XQCConfig, make_xqc
from robo_rl.agents.xqc.categorical import bin_centres, project
from robo_rl.agents.xqc.return_scaling import ReturnStatistics
from robo_rl.agents.xqc.update import ACTOR_METRICS, CRITIC_METRICS, XQCUpdate, schedule
from robo_rl.core import ArraySpec, Batch, ConfigError, DivergenceError, State

from ..rigs.chunk_rows import assert_equal_states
from ..rigs.specs import toy_spec

V, A, B = 3, 2, 8
SPEC = toy_spec({"state": ArraySpec((V,))}, A)
NETWORKS = ("xqc", "crossq", "simbav2")
SMALL: dict[str, Any] = {"hidden": (6,), "critic_hidden": (5, 5), "batch_size": B, "value_bins": 7, "device": "cpu"}


def make(seed: int = 0, **fields: Any) -> XQC:
    return make_xqc(spec=SPEC, seed=seed, **(SMALL | fields))


def rows(count: int, seed: int) -> Batch:
    rng = np.random.default_rng(seed)
    batch = {
        "observation/state": rng.normal(1, 2, (count, V)),
        "next_observation/state": rng.normal(1, 2, (count, V)),
        "action": rng.uniform(-1, 1, (count, A)),
        "reward": rng.normal(0, 1, count),
        "discount": rng.choice([0, 0.9], count),
    }
    return {name: array.astype(np.float32) for name, array in batch.items()}


def trained(**fields: Any) -> XQC:
    """Return an agent whose statistics, targets and moments differ from their initial values."""
    agent = make(**({"learning_rate": 0.02, "tau": 0.3} | fields))
    for step in range(6):
        agent.update(rows(agent.update_rows, step))
    return agent


class Reference:
    """The networks of a state, for rows in float64, written out."""

    def __init__(self, network: str, state: State) -> None:
        self.network, self.state = network, {name: array.astype(np.float64) for name, array in state.items()}

    def __call__(self, name: str, x: np.ndarray, member: int | None, *, statistics: str | None) -> np.ndarray:
        """Return the outputs; ``statistics`` is the name of the running ones, None for those of the rows."""

        def parameter(key: str, prefix: str = name) -> np.ndarray:
            array = self.state[f"{prefix}/{key}"]
            return array if member is None else array[member]

        def norm(layer: str, x: np.ndarray) -> np.ndarray:
            mean, variance = x.mean(0), x.var(0)
            if statistics:
                mean, variance = (parameter(f"{layer}/{kind}", statistics) for kind in ("mean", "variance"))
            return (x - mean) / np.sqrt(variance + 1e-3) * parameter(f"{layer}/scale") + parameter(f"{layer}/shift")

        x, layer = norm("input", x), 0
        while f"{name}/{layer}/weight" in self.state:
            x = x @ parameter(f"{layer}/weight")
            if self.network == "crossq":
                x = norm(f"{layer}", np.maximum(x + parameter(f"{layer}/bias"), 0))
            else:
                x = np.maximum(norm(f"{layer}", x), 0)
            layer += 1
        return x @ parameter("output/weight") + parameter("output/bias")

    def sample(self, observation: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return sampled(self("actor", observation, None, statistics="actor_statistics"), noise)


def sampled(outputs: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the actions and their log densities, for outputs of an actor."""
    mean, log_std = np.split(outputs, 2, axis=1)
    log_std = log_std.clip(-20, 2)
    x = mean + np.exp(log_std) * noise
    log_prob = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) - 2 * (np.log(2) - x - np.logaddexp(0, -2 * x))
    return np.tanh(x), log_prob.sum(1)


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - x.max(-1, keepdims=True) - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True))


def next_noise(agent: XQC, *draws: tuple[int, ...]) -> list[np.ndarray]:
    """Return the next standard normal numbers of an agent's updates."""
    source = torch.Generator()
    source.set_state(torch.from_numpy(agent.state()["generator/update"]))
    return [torch.randn(draw, generator=source).double().numpy() for draw in draws]


@pytest.mark.parametrize("network", ["xqc", "crossq"])
@pytest.mark.parametrize("tau", [0.3, 1.0])
@pytest.mark.parametrize("bins", [0, 7])
def test_critics_learn_targets_of_rows_and_next_rows_normalised_together(network: str, tau: float, bins: int) -> None:
    agent, batch = trained(network=network, tau=tau, value_bins=bins), rows(B, 100)
    (noise,) = next_noise(agent, (B, A))
    state = agent.state()
    reference = Reference(network, state)
    observation, following = batch["observation/state"], batch["next_observation/state"]
    action, log_prob = reference.sample(following, noise)
    joint = np.concatenate((np.concatenate((observation, batch["action"]), 1), np.concatenate((following, action), 1)))
    outputs = np.stack([reference("critic", joint, e, statistics=None) for e in range(2)])
    targets = outputs
    if tau < 1:
        targets = np.stack([reference("target_critic", joint, e, statistics=None) for e in range(2)])
    alpha = np.exp(state["temperature/log_alpha"][0])
    metrics = agent.update(batch)
    scale = metrics["reward_scale"]
    if bins == 0:
        assert scale == 1
        value = targets[:, B:, 0].min(0) - alpha * log_prob
        target = batch["reward"] + batch["discount"] * value
        loss, mean = np.square(outputs[:, :B, 0] - target).mean(), target.mean()
        values = outputs[:, :B, 0]
    else:
        centres = -5 + (np.arange(bins) + 0.5) * 10 / bins
        shares = np.exp(log_softmax(targets[:, B:]))
        least = (shares @ centres).argmin(0)
        target = np.zeros((B, bins))
        for row in range(B):
            for k in range(bins):
                moved = batch["reward"][row] / scale
                moved += batch["discount"][row] * (centres[k] - alpha * log_prob[row])
                place = (np.clip(moved, centres[0], centres[-1]) - centres[0]) / (10 / bins)
                for bin_ in range(bins):
                    target[row, bin_] += shares[least[row], row, k] * max(0, 1 - abs(place - bin_))
        np.testing.assert_allclose(target.sum(1), 1)
        loss = -(target * log_softmax(outputs[:, :B])).sum(-1).mean()
        mean, values = (target @ centres).mean() * scale, np.exp(log_softmax(outputs[:, :B])) @ centres * scale
    assert metrics["critic_loss"] == pytest.approx(loss, rel=1e-4)
    assert metrics["target_mean"] == pytest.approx(mean, rel=1e-4, abs=1e-4)
    assert metrics["q_mean"] == pytest.approx(values.mean(), rel=1e-4, abs=1e-4)
    moved = agent.state()
    for name, moment in (("mean", joint.mean(0)), ("variance", joint.var(0))):
        key = f"critic_statistics/input/{name}"
        np.testing.assert_allclose(moved[key][0], 0.99 * state[key][0] + 0.01 * moment, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("network", ["xqc", "crossq"])
def test_the_actor_climbs_the_least_value_by_running_statistics(network: str) -> None:
    agent, batch = trained(network=network, policy_delay=1), rows(B, 100)
    _, noise = next_noise(agent, (B, A), (B, A))
    before = agent.state()
    metrics = agent.update(batch)
    # The critics have moved before the actor does.
    reference = Reference(network, agent.state() | {k: v for k, v in before.items() if k.startswith("actor/")})
    action, log_prob = sampled(reference("actor", batch["observation/state"], None, statistics=None), noise)
    x = np.concatenate((batch["observation/state"], action), 1)
    shares = [np.exp(log_softmax(reference("critic", x, e, statistics="critic_statistics"))) for e in range(2)]
    values = (np.stack(shares) @ (-5 + (np.arange(7) + 0.5) * 10 / 7)).min(0)
    alpha = np.exp(before["temperature/log_alpha"][0])
    assert metrics["entropy"] == pytest.approx(-log_prob.mean(), rel=1e-4)
    assert metrics["actor_loss"] == pytest.approx((alpha * log_prob - values).mean(), rel=1e-4)


def test_a_projected_distribution_keeps_its_mean() -> None:
    source = torch.Generator().manual_seed(0)
    shares = torch.rand(50, 9, generator=source).softmax(-1)
    values = torch.rand(50, 9, generator=source) * 3.5 - 1.75  # between the centres of the outer bins
    projected = project(shares, values, (-2.0, 2.0))
    torch.testing.assert_close(projected.sum(-1), torch.ones(50))
    centres = bin_centres(9, (-2.0, 2.0), values)
    torch.testing.assert_close((projected * centres).sum(-1), (shares * values).sum(-1))
    outside = project(torch.ones(2, 1).expand(2, 9) / 9, torch.tensor([[-50.0], [50.0]]).expand(2, 9), (-2.0, 2.0))
    torch.testing.assert_close(outside[:, [0, -1]], torch.eye(2))
    on_centre = project(torch.eye(9), centres.expand(9, 9), (-2.0, 2.0))
    torch.testing.assert_close(on_centre, torch.eye(9), atol=1e-5, rtol=0)


def test_rewards_are_scaled_by_the_deviation_of_returns_and_never_leave_the_bins() -> None:
    returns = np.random.default_rng(0).normal(-300, 20, 1000)
    statistics = ReturnStatistics()
    assert statistics.scale(5.0) == 1.0
    for part in np.split(returns, 10):
        statistics.note(part.tolist())
    assert statistics.values.tolist() == pytest.approx(
        [1000, returns.mean(), 1000 * returns.var(), np.abs(returns).max()]
    )
    assert statistics.scale(5.0) == pytest.approx(np.abs(returns).max() / 5), "far from 0, the ends of the bins decide"
    assert statistics.scale(1e6) == pytest.approx(returns.std()), "and otherwise the deviation"
    constant = ReturnStatistics()
    constant.note([0.0] * 4)
    assert 0 < constant.scale(5.0) < 1e-3


@pytest.mark.parametrize("network", ["xqc", "simbav2"])
def test_the_weights_of_every_unit_have_length_one(network: str) -> None:
    for agent in (make(network=network), trained(network=network)):
        state = agent.state()
        weights = {
            name: x for name, x in state.items() if name.endswith("/weight") and not name.startswith(("adam", "t"))
        }
        assert {name.split("/")[0] for name in weights} == {"actor", "critic"}
        for name, weight in weights.items():
            np.testing.assert_allclose(np.linalg.norm(weight, axis=-2), 1, rtol=1e-5, err_msg=name)
    assert max(np.abs(np.linalg.norm(trained(network="crossq").state()["critic/0/weight"], axis=-2) - 1).ravel()) > 0.1


def test_features_of_simbav2_have_length_one_and_its_observations_the_scale_of_the_batches() -> None:
    agent = trained(network="simbav2", policy_delay=1)
    before = agent.state()
    batch = rows(B, 7)
    agent.update(batch)
    state = agent.state()
    key = "actor_statistics/input/mean"
    expected = 0.99 * before[key] + 0.01 * batch["observation/state"].mean(0)
    np.testing.assert_allclose(state[key], expected, rtol=1e-4, atol=1e-6)
    # Written out for one row: normalised, a constant, and vectors of length 1 in the embedding and the one block.
    actor = {k.removeprefix("actor/"): v.astype(np.float64) for k, v in state.items() if k.startswith("actor/")}
    variance = state["actor_statistics/input/variance"]

    def unit(x: np.ndarray) -> np.ndarray:
        return x / np.linalg.norm(x)

    x = (batch["observation/state"][0] - state[key]) / np.sqrt(variance + 1e-3)
    x = unit(unit(np.append(x, 3)) @ actor["embedding/weight"] * actor["embedding/scale"])
    y = np.maximum(x @ actor["0/expand/weight"] * actor["0/expand/scale"], 0) @ actor["0/project/weight"]
    x = unit(x + actor["0/step"] * np.sqrt(6) / 2 * (unit(y) - x))
    mean = x @ actor["head0/hidden/weight"] * actor["head0/hidden/scale"]
    mean = mean @ actor["head0/output/weight"] + actor["head0/output/bias"]
    action = agent.act({"state": batch["observation/state"][0]}, explore=False)
    np.testing.assert_allclose(action, np.tanh(mean), rtol=1e-3, atol=1e-5)


def test_the_actor_moves_after_every_third_critic_update_and_learning_rates_fall() -> None:
    agent = make(update_to_data=2, policy_delay=3, decay_updates=10, learning_rate=0.01, final_learning_rate=0.002)
    changes, rates = [], []
    for step in range(6):
        before = agent.state()
        metrics = agent.update(rows(2 * B, step))
        changes.append(not np.array_equal(before["actor/0/weight"], agent.state()["actor/0/weight"]))
        assert ("entropy" in metrics) == changes[-1]
        rates.append(metrics["learning_rate"])
    assert changes == [False, True, True, False, True, True], "after critic updates 3, 6, 9 and 12"
    np.testing.assert_allclose(rates, [0.01, 0.0084, 0.0068, 0.0052, 0.0036, 0.002])


@pytest.mark.parametrize("network", NETWORKS)
def test_a_run_continues_bit_for_bit(network: str) -> None:
    tau = 1.0 if network == "crossq" else 0.3
    unbroken, resumed = trained(network=network, tau=tau), make(1, network=network, tau=tau, learning_rate=0.02)
    resumed.load(unbroken.state())
    observation = {"state": np.ones(V, np.float32)}
    for step in range(4):
        for explore in (True, False):
            first, second = (agent.act(observation, explore=explore) for agent in (unbroken, resumed))
            np.testing.assert_array_equal(first, second)
        assert unbroken.update(rows(B, step)) == resumed.update(rows(B, step))
    assert_equal_states(unbroken.state(), resumed.state())
    actor = make(2, network=network)
    actor.load_policy(unbroken.policy_state())
    np.testing.assert_array_equal(actor.act(observation, explore=False), unbroken.act(observation, explore=False))


@pytest.mark.parametrize("network", NETWORKS)
def test_it_learns_which_action_is_good_where(network: str) -> None:
    """A reward of minus the distance to an action that depends on the observation, for one step."""
    agent = make(
        network=network,
        hidden=(16,),
        critic_hidden=(24,),
        batch_size=64,
        value_bins=0 if network == "crossq" else 21,
        learning_rate=0.01,
        policy_delay=1,
        initial_temperature=0.01,
        tau=0.1,
    )
    unit = 1 if network == "crossq" else 100  # rewards of CrossQ are not scaled
    agent.note_returns([-2.0 * unit, 0.0])
    wanted = np.array([[0.6, 0.0], [0.0, -0.6], [0.0, 0.0]], np.float32)
    for step in range(150):
        batch = rows(64, step)
        batch["observation/state"] = np.sign(batch["observation/state"] - 1)
        distance = np.abs(batch["action"] - batch["observation/state"] @ wanted).sum(1)
        agent.update(batch | {"reward": unit * (0.1 - distance), "discount": np.zeros(64, np.float32)})
    for first in (-1, 1):
        for second in (-1, 1):
            state = np.array([first, second, 1], np.float32)
            np.testing.assert_allclose(agent.act({"state": state}, explore=False), state @ wanted, atol=0.25)
    good, bad = (agent.value({"state": state}, action) / unit for action in (state @ wanted, -(state @ wanted)))
    assert -0.6 < good < 0.3 and bad < -0.9, "values are in units of the reward: about 0.1 and -2.3"


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("bins", [0, 7])
def test_no_host_takes_part_in_a_step(network: str, bins: int) -> None:
    """A tensor on ``meta`` has no values: reading one back raises, so both steps can be captured as CUDA graphs."""
    agent = make(network=network, value_bins=bins)
    config, state = agent.config, map_state(agent)
    steps = XQCUpdate(config, state)
    observation, action, row = torch.zeros(B, V), torch.zeros(B, A), torch.zeros(B)
    values = on_meta((Rows(observation, action, row, row, observation), action, schedule(config, 0, 1)))
    assert steps.critic_step(*values).shape == (len(CRITIC_METRICS),)
    assert steps.actor_step(*on_meta((observation, action, schedule(config, 0, 1)))).shape == (len(ACTOR_METRICS),)


def on_meta(tensors: Any) -> Any:
    return map_tensors(lambda x: x.to("meta"), tensors)


def map_state(agent: XQC) -> Any:
    kind = type(agent._state)
    return kind(*({name: x.to("meta") for name, x in named.items()} for named in agent._state))


def test_refuses_invalid_options_and_rows() -> None:
    for name, value in (
        ("ensemble_size", 0),
        ("critic_hidden", []),
        ("value_bins", 1),
        ("adam_beta", 1.0),
        ("tau", 0),
        ("policy_delay", 0),
        ("decay_updates", 0),
        ("batch_size", 1),
        ("device", "gpu"),
        ("gamma", 1.0),
    ):
        with pytest.raises(ConfigError, match=rf"agent\.{name}"):
            XQCConfig(**{name: value})
    for name in ("network", "implementation"):
        with pytest.raises(ConfigError, match=rf"unknown agent\.{name} 'xqx'"):
            XQCConfig(**{name: "xqx"})
    with pytest.raises(ConfigError, match=r"agent\.critic_hidden must be equal widths"):
        XQCConfig(network="simbav2", hidden=(8,), critic_hidden=(8, 9))
    batch = rows(B, 0)
    with pytest.raises(DivergenceError, match=r"agent\.q_limit is 1e-05"):
        make(q_limit=1e-5).update(batch)
    batch["reward"][0] = np.nan
    with pytest.raises(DivergenceError, match="critic_loss is nan at update 1"):
        make().update(batch)

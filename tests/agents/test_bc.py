"""Behaviour cloning, as an agent and as the start of another."""

import numpy as np
import pytest

from robo_rl.agents.bc import BCConfig, make_bc
from robo_rl.agents.sac import make_sac
from robo_rl.core import ArraySpec, ConfigError, DivergenceError

from ..rigs.specs import toy_spec

SPEC = toy_spec({"state": ArraySpec((2,))}, 2, reward_terms=())


def expert(state):
    """A smooth arm and a gripper that is open or shut."""
    return np.stack([0.5 * np.sin(2 * state[:, 0]), np.sign(state[:, 1])], axis=1).astype(np.float32)


def demonstrations(rows, seed):
    state = np.random.default_rng(seed).uniform(-1, 1, (rows, 2)).astype(np.float32)
    executed = np.random.default_rng(seed + 1).uniform(-1, 1, (rows, 2)).astype(np.float32)
    return {"observation/state": state, "action": executed, "proposed_action": expert(state)}


@pytest.mark.parametrize("make", [make_bc, make_sac])
def test_clones_the_expert(make):
    extra = {"learning_rate": 3e-3} if make is make_bc else {"actor_learning_rate": 3e-3, "implementation": "torch"}
    agent = make(spec=SPEC, seed=0, hidden=[64, 64], **extra)
    agent.fit_normaliser(demonstrations(1000, 0))
    first = agent.pretrain(demonstrations(256, 1))["bc_loss"]
    for k in range(200):
        metrics = agent.pretrain(demonstrations(256, k))
    assert metrics["bc_loss"] < 0.05 < first
    unseen = demonstrations(200, 999)
    state = unseen["observation/state"]
    acted = np.stack([agent.act({"state": row}, explore=False) for row in state])
    clear = np.abs(state[:, 1]) > 0.2  # away from the switch
    np.testing.assert_allclose(acted[clear], unseen["proposed_action"][clear], atol=0.15)


def test_loss_is_the_mean_squared_error_of_the_action():
    agent = make_bc(spec=SPEC, seed=0, normalise_observations=False)
    batch = demonstrations(50, 0)
    acted = np.stack([agent.act({"state": row}, explore=True) for row in batch["observation/state"]])
    assert agent.update(batch)["bc_loss"] == pytest.approx(np.mean((acted - batch["proposed_action"]) ** 2), rel=1e-5)


def test_online_it_learns_from_each_minibatch_that_somebody_has_shown():
    agent = make_bc(spec=SPEC, seed=0, learns_online=True, update_to_data=3, batch_size=50)
    other = make_bc(spec=SPEC, seed=0)
    assert agent.update_rows == 150
    batch = demonstrations(150, 0)
    before = agent.state()
    assert agent.update(batch | {"demonstration": np.zeros(150, np.float32)}) == {}
    for name, value in agent.state().items():
        np.testing.assert_array_equal(value, before[name])
    metrics = agent.update(batch | {"demonstration": np.ones(150, np.float32)})
    for first in (0, 50, 100):
        expected = other.pretrain({key: value[first : first + 50] for key, value in batch.items()})
    assert metrics == expected
    for name, value in agent.state().items():
        np.testing.assert_array_equal(value, other.state()[name])


def test_pretraining_leaves_the_deviation_of_the_policy_as_it_was():
    agent = make_sac(
        spec=SPEC, seed=0, hidden=[32], initial_log_std=-0.7, actor_learning_rate=1e-2, implementation="torch"
    )
    agent.fit_normaliser(demonstrations(1000, 0))
    state = {"state": np.zeros(2, np.float32)}

    def deviation():
        samples = np.arctanh(np.array([agent.act(state, explore=True) for _ in range(1000)], np.float64))
        return samples.std(0)

    np.testing.assert_allclose(deviation(), np.exp(-0.7), rtol=0.1)
    for k in range(50):
        agent.pretrain(demonstrations(64, k))
    # Its own weights get no gradient, only what comes into them changes.
    np.testing.assert_allclose(deviation(), np.exp(-0.7), rtol=0.15)


def test_state_round_trip():
    unbroken = make_bc(spec=SPEC, seed=0, hidden=[8])
    unbroken.fit_normaliser(demonstrations(100, 0))
    unbroken.update(demonstrations(20, 1))
    resumed = make_bc(spec=SPEC, seed=1, hidden=[8])
    resumed.load(unbroken.state())
    for k in range(3):
        assert unbroken.update(demonstrations(20, k)) == resumed.update(demonstrations(20, k))
    ours, theirs = unbroken.state(), resumed.state()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours.keys() | theirs.keys())
    pupil = make_bc(spec=SPEC, seed=2, hidden=[8])
    pupil.load_policy(unbroken.policy_state())
    state = {"state": np.float32([0.2, -0.3])}
    np.testing.assert_array_equal(pupil.act(state, explore=False), unbroken.act(state, explore=False))


def test_demonstrations_that_are_not_finite_end_cloning():
    agent = make_bc(spec=SPEC, seed=0, normalise_observations=False)
    batch = demonstrations(10, 0)
    batch["proposed_action"][0, 0] = np.nan
    with pytest.raises(DivergenceError, match="bc_loss is nan at step 1"):
        agent.update(batch)


def test_values_out_of_range_are_named():
    with pytest.raises(ConfigError, match=r"agent.learning_rate must be in \(0, 1\), got 0"):
        BCConfig(learning_rate=0)
    with pytest.raises(ConfigError, match=r"unknown agent\.activation 'elu'"):
        BCConfig(activation="elu")

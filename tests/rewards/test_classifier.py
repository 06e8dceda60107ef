"""Success classifiers: what they tell apart, their threshold, and the adversarial update against finite differences."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from robo_rl.core import ArraySpec, CheckpointError, ConfigError, DataError
from robo_rl.rewards.modules.classifier import ClassifierConfig, ClassifierReward, ViceConfig, ViceReward

from ..rigs.specs import joint_spec

SPEC = joint_spec({"state": ArraySpec((2,))})


def rows(states):
    states = np.asarray(states, dtype=np.float32)
    return {"action": np.zeros((len(states), 1), np.float32), "next_observation/state": states}


def demonstration(rng, steps=20):
    """A walk to (1, 0), where it stays for two steps."""
    path = np.zeros((steps + 1, 2), np.float32)
    path[:, 0] = np.minimum(np.linspace(0, 1, steps - 1)[np.minimum(np.arange(steps + 1), steps - 2)], 1)
    path[:, 1] = 0.02 * rng.normal(size=steps + 1)
    return rows(path[1:]) | {"observation/state": path[:-1]}


def demonstrations(count=8):
    rng = np.random.default_rng(0)
    return [demonstration(rng) for _ in range(count)]


SMALL = {"hidden": (16,), "fit_steps": 200, "goal_states": 2, "margin": 6}


def fitted(config=None) -> ClassifierReward:
    module = (config or ClassifierConfig(**SMALL, learning_rate=1e-2)).make("goal", SPEC, 0)
    module.fit(demonstrations())
    return module


class Places:
    """Experience: the policy is always in one of some places."""

    def __init__(self, places):
        self.places = np.asarray(places, np.float32)

    def __len__(self):
        return 1000

    def sample_rows(self, n, rng):
        return rows(self.places[rng.integers(0, len(self.places), n)])


def test_it_tells_ends_from_the_way_there():
    np.testing.assert_array_equal(fitted()(rows([[1.0, 0.0], [0.0, 0.0], [0.5, 0.0]])), [1, 0, 0])


@pytest.mark.parametrize("config", [ClassifierConfig, ViceConfig, partial(ViceConfig, soft=True)])
def test_no_success_is_where_the_guard_is_not_true(config):
    named = replace(SPEC, observation={"state": ArraySpec((2,), names=("along", "across"))})
    states = rows(np.random.default_rng(5).uniform(-0.5, 1.5, (300, 2)))
    rewards = {}
    for guard in (None, "across > 0.2 or along > 1.2"):
        module = config(**SMALL, learning_rate=1e-2, guard=guard).make("goal", named, 0)
        module.fit(demonstrations())
        rewards[guard] = module(states)
    along, across = states["next_observation/state"].T
    allowed = (across > 0.2) | (along > 1.2)
    free, guarded = rewards.values()
    assert free[~allowed].any(), "without a guard some of them are taken for successes"
    np.testing.assert_array_equal(guarded, np.where(allowed, free, 0))
    for guard, problem in (
        ("hight > 1", "'hight'"),
        ("always (along > 1)", "refers to several moments"),
        ("1 > 0", "names a signal"),
        ("along >", ""),
    ):
        with pytest.raises(ConfigError, match=f"reward.modules.goal.guard: .*{problem}"):
            config(guard=guard).make("goal", named, 0)


def test_the_threshold_keeps_the_promised_share_of_false_positives():
    """Classes that cannot be told apart: states of failure are those of success."""
    rng = np.random.default_rng(1)
    episodes = []
    for _ in range(12):
        path = rng.normal(size=(51, 2)).astype(np.float32)
        episodes.append(rows(path[1:]) | {"observation/state": path[:-1]})
    module = ClassifierConfig(hidden=(16,), fit_steps=100, goal_states=10, false_positives=0.05).make("goal", SPEC, 0)
    module.fit(episodes)
    walks = [np.concatenate([each["observation/state"][:1], each["next_observation/state"]]) for each in episodes[::4]]
    held_out = np.concatenate([walk[:-11] for walk in walks])
    rate = module(rows(held_out)).mean()
    assert 0.02 < rate <= 0.05


def test_two_of_the_same_seed_are_equal_and_state_goes_on():
    module, twin = fitted(), fitted()
    other = ClassifierConfig(**SMALL).make("goal", SPEC, 5)
    other.load({key: value.copy() for key, value in module.state().items()})
    states = rows(np.random.default_rng(2).uniform(size=(50, 2)))
    logits = [each._logits(states["next_observation/state"]) for each in (module, twin, other)]
    np.testing.assert_array_equal(logits[0], logits[1])
    np.testing.assert_array_equal(logits[0], logits[2])
    with pytest.raises(CheckpointError, match="reward module 'goal': expected 'shift'"):
        other.load({})


def vice(**options) -> ViceReward:
    config = ViceConfig(**SMALL, interval=1, updates=20, learning_rate=1e-2, penalty=0.1, **options)
    module = config.make("goal", SPEC, 0)
    module.fit(demonstrations())
    return module


def test_what_the_policy_exploits_is_unlearned():
    """A state that the demonstrations say nothing of, and that looks like success, loses its reward."""
    module = vice()
    places = np.array([[1.2, 0.02], [1.3, -0.02]])
    assert (module(rows(places)) == 1).all()
    assert module.version == 0
    for _ in range(15):
        metrics = module.update(Places(places))
    assert module.version == 15
    assert metrics["positive_fraction"] == 0.0
    assert (module(rows(places)) == 0).all()
    assert module(rows([[1.0, 0.0]])) == 1.0


def test_where_the_policy_is_as_often_as_the_examples_it_says_one_half():
    module = vice(soft=True)
    goals = module.state()["goals"]
    for _ in range(20):
        module.update(Places(goals))
    assert module(rows(goals)).mean() == pytest.approx(0.5, abs=0.1)


def test_updates_come_at_their_interval_and_state_goes_on_bit_for_bit():
    config = ViceConfig(**SMALL, interval=3, updates=2)
    module, other = (config.make("goal", SPEC, 0) for _ in range(2))
    module.fit(demonstrations())
    places = Places(np.random.default_rng(3).uniform(size=(40, 2)))
    versions = []
    for _ in range(7):
        module.update(places)
        versions.append(module.version)
    assert versions == [0, 0, 1, 1, 1, 2, 2]
    other.load({key: value.copy() for key, value in module.state().items()})
    for each in (module, other):
        for _ in range(5):
            each.update(places)
    for key, value in module.state().items():
        np.testing.assert_array_equal(value, other.state()[key], err_msg=key)


def test_the_loss_is_that_of_a_computation_by_hand():
    """Mixup, smoothed labels and the gradient penalty, in float64 and with the gradient from differences."""
    module = vice()
    inputs = torch.from_numpy(np.random.default_rng(4).normal(size=(6, 2)).astype(np.float32))
    found = float(module._loss(inputs, 3, np.random.default_rng(5)).detach())

    rng = np.random.default_rng(5)
    order, share = rng.permutation(6), rng.uniform(size=(6, 1))
    x = inputs.numpy().astype(np.float64)
    labels = np.array([0.9, 0.9, 0.9, 0.1, 0.1, 0.1])
    mixed = share * x + (1 - share) * x[order]
    label = share[:, 0] * labels + (1 - share[:, 0]) * labels[order]
    state = {key: value.astype(np.float64) for key, value in module._network.state().items()}

    def logit(x):
        hidden = x @ state["0.weight"].T + state["0.bias"]
        hidden = (hidden - hidden.mean(1, keepdims=True)) / np.sqrt(hidden.var(1, keepdims=True) + 1e-5)
        hidden = np.maximum(hidden * state["1.weight"] + state["1.bias"], 0)
        return (hidden @ state["3.weight"].T + state["3.bias"])[:, 0]

    probability = 1 / (1 + np.exp(-logit(mixed)))
    entropy = -(label * np.log(probability) + (1 - label) * np.log(1 - probability)).mean()
    step = 1e-6
    gradient = np.stack([(logit(mixed + step * e) - logit(mixed - step * e)) / (2 * step) for e in np.eye(2)], axis=1)
    penalty = ((np.linalg.norm(gradient, axis=1) - 1) ** 2).mean()
    assert found == pytest.approx(entropy + 0.1 * penalty, rel=1e-3)


def test_demonstrations_that_failed_are_no_examples_of_success(capsys):
    """Half of them end elsewhere, in failure: with these left out it is as if they had never been there."""
    config, elsewhere = ClassifierConfig(**SMALL, learning_rate=1e-2), demonstrations()
    for each in elsewhere:
        for key in ("observation/state", "next_observation/state"):
            each[key] = -each[key]
        each["success"] = np.zeros(len(each["action"]), np.int8)
    module = config.make("goal", SPEC, 0)
    module.fit(demonstrations() + elsewhere)
    assert "'goal': 8 demonstrations that failed are left out" in capsys.readouterr().out
    for key, value in fitted(config).state().items():
        np.testing.assert_array_equal(value, module.state()[key], err_msg=key)
    with pytest.raises(DataError, match="each of 8 ended in failure"):
        config.make("goal", SPEC, 0).fit(elsewhere)


def test_demonstrations_must_hold_failures():
    module = ClassifierConfig(goal_states=3).make("goal", SPEC, 0)
    with pytest.raises(DataError, match="'goal' needs demonstrations of 5 observations, the longest has 4"):
        module.fit([demonstration(np.random.default_rng(0), 3)])

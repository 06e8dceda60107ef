"""Ensembles of modules: how their rewards become one, that members differ, and what a mistake of one is worth."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from robo_rl.core import ArraySpec, CheckpointError, ConfigError
from robo_rl.rewards import MODULES
from robo_rl.rewards.modules.classifier import ClassifierConfig, ViceConfig
from robo_rl.rewards.modules.ensemble import EnsembleConfig, combined
from robo_rl.rewards.parts.module import Module

from ..rigs.specs import joint_spec

SPEC = joint_spec({"state": ArraySpec((2,))})


@dataclass(frozen=True)
class Times:
    """A module of a user: the first element of the state times ``factor``, learned by counting updates."""

    factor: float
    gamma: float | None = None
    learned: bool = False
    acting: bool = False

    def make(self, name, spec, seed):
        return TimesModule(self, name, seed)


class TimesModule(Module):
    def __init__(self, config, name, seed):
        super().__init__()
        self.config, self.name, self.seed = config, name, seed
        self.learned, self.judges_state = config.learned, not config.acting
        self.seen = 0

    def __call__(self, batch):
        return np.float32(self.config.factor) * batch["next_observation/state"][:, 0]

    def observe(self, batch):
        self.seen += len(batch["action"])

    def update(self, experience):
        self.version += self.learned
        return {"factor": self.config.factor} | ({"learned": 1.0} if self.learned else {})

    def discount(self):
        return self.config.gamma


def rows(states):
    states = np.asarray(states, np.float32)
    return {"action": np.zeros((len(states) - 1, 1), np.float32)} | {
        "observation/state": states[:-1],
        "next_observation/state": states[1:],
    }


def test_what_members_disagree_on_is_worth_less():
    members = np.array([[1.0, 0.5], [-1.0, 0.5], [0.3, 0.5]], np.float32)
    np.testing.assert_allclose(combined(members, "mean", 0.5), [0.1, 0.5], atol=1e-6)
    np.testing.assert_allclose(combined(members, "worst", 0.5), [-1.0, 0.5])
    variance = ((1.0 - 0.1) ** 2 + (-1.0 - 0.1) ** 2 + (0.3 - 0.1) ** 2) / 3
    np.testing.assert_allclose(combined(members, "uncertainty", 0.5), [0.1 - 0.5 * variance, 0.5], atol=1e-6)


def test_members_of_different_kinds_become_one_module():
    members = {"one": Times(1.0, gamma=0.9), "two": Times(3.0, gamma=0.8, learned=True, acting=True)}
    module = EnsembleConfig(members, copies=1, combination="mean").make("both", SPEC, 0)
    batch = rows([[0, 0], [1, 0], [-2, 0]])
    np.testing.assert_allclose(module(batch), [2, -4])
    assert module.learned and not module.judges_state and not module.whole_episodes
    assert module.discount() == 0.8 and module.version == 0
    assert module.update(None) == {"factor": 2.0, "learned": 1.0} and module.version == 1
    module.observe(batch)
    assert [each.seen for each in module._members] == [2, 2]
    assert [each.name for each in module._members] == ["both.members.one", "both.members.two"]


def test_copies_differ_in_their_seeds_and_runs_of_one_seed_do_not():
    def seeds(seed):
        return [each.seed for each in EnsembleConfig({"one": Times(1.0)}, copies=3).make("all", SPEC, seed)._members]

    assert len(set(seeds(0) + seeds(1))) == 6 and seeds(0) == seeds(0)


def test_a_success_that_one_classifier_sees_by_mistake_is_none():
    """Off the demonstrations each classifier goes on as its network happens to; all of them rarely agree there."""
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(8):
        path = np.linspace(0, 1, 12)[:, None] * np.array([1.0, 0.0]) + rng.normal(0, 0.02, (12, 2))
        episodes.append(rows(path))
    far = rows(rng.uniform(-3, 3, (2001, 2)))
    near = (np.abs(far["next_observation/state"] - [1, 0]) < 0.3).all(1)
    one = ClassifierConfig(fit_steps=100)
    rates = {}
    for copies in (1, 5):
        module = EnsembleConfig({"one": one}, copies=copies).make("goal", SPEC, 0)
        module.fit(episodes)
        ends = np.concatenate([module(episode)[-1:] for episode in episodes])
        assert ends.mean() > 0.7
        rates[copies] = float(module(far)[~near].mean())
    assert 0 < rates[5] < 0.9 * rates[1]


def test_adversarial_members_learn_and_are_saved():
    config = EnsembleConfig(
        {"one": ViceConfig(fit_steps=2, interval=1, learning_starts=1, updates=1)}, copies=2, combination="uncertainty"
    )
    module, other = (config.make("goal", SPEC, seed) for seed in (0, 1))
    episode = rows(np.linspace([0, 0], [1, 0], 12))
    module.fit([episode])

    class Replay:
        def __len__(self):
            return 11

        def sample_rows(self, n, rng):
            chosen = rng.integers(0, 11, n)
            return {key: value[chosen] for key, value in episode.items()}

    assert set(module.update(Replay())) == {"loss", "positive_fraction"} and module.version == 2
    other.load({key: value.copy() for key, value in module.state().items()})
    np.testing.assert_array_equal(other(episode), module(episode))
    module.update(Replay()), other.update(Replay())
    assert module.version == other.version == 4
    with pytest.raises(CheckpointError, match=r"expected 3 members, found \[2\]"):
        replace(config, copies=3).make("goal", SPEC, 0).load(module.state())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "reward.modules.goal.members: there are none; choose one with"),
        ({"members": {"one": None}}, "reward.modules.goal.members.one: is not a module; choose one with"),
        ({"members": {"one": MODULES["preferences"]()}}, "members.one: is an ensemble itself"),
        ({"members": {"one": EnsembleConfig({"two": Times(1.0)})}}, "members.one: is an ensemble itself"),
        (
            {"members": {"one": Times(1.0, learned=True), "two": MODULES["optimal_transport"]()}},
            "goal.members: two judges whole episodes, so it cannot be scored again with one, which is learned: give",
        ),
    ],
)
def test_what_is_no_ensemble_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        EnsembleConfig(**options).make("goal", SPEC, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"copies": 0}, "copies must be 1 or more"),
        ({"combination": "best"}, "combination must be one of mean, worst, uncertainty"),
        ({"uncertainty_weight": -1.0}, "uncertainty_weight must be 0 or more"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        EnsembleConfig(**options)

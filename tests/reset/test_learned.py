"""An agent that learns to undo what the task's policy does, in a world with a pit that nothing comes out of."""

import numpy as np
import pytest

from robo_rl.actor import ActionChoice, Actor, EpisodeRefusedError
from robo_rl.agents.bc import make_bc
from robo_rl.agents.sac import make_sac
from robo_rl.app.returning import ReturnLearner
from robo_rl.core import Batch, ConfigError, DataError, Observation, RewardWeights, Source, generator
from robo_rl.reset.config import LearnedConfig
from robo_rl.reset.learned import LearnedReset
from robo_rl.rewards import ComposedRewardConfig
from robo_rl.rewards.modules.classifier import ViceConfig
from robo_rl.rewards.modules.gail import GailConfig

from ..rigs.pit_world import EDGE, SPEC, STRIDE, PitWorld

AGENT = {
    "hidden": (32, 32),
    "ensemble_size": 2,
    "update_to_data": 2,
    "batch_size": 64,
    "gamma": 0.9,
    "tau": 0.02,
    "actor_learning_rate": 1e-3,
    "critic_learning_rate": 1e-3,
    "initial_log_std": 0.0,
    "initial_temperature": 0.1,
    "demonstration_ratio": 0.0,
    "cloning_weight": 0.0,
    "final_cloning_weight": 0.0,
    "learning_starts": 50,
}
CLASSIFIER = ViceConfig(
    hidden=(32,), soft=True, interval=10, updates=5, batch_size=64, fit_steps=300, learning_rate=3e-3, penalty=0.1
)
REFUSES_FROM = 12


def demonstrations() -> list[Batch]:
    """Eight walks from the beginning almost to the edge."""
    episodes = []
    for number in range(8):
        rng = np.random.default_rng(number)
        steps = STRIDE * np.array([0.45, 0.0]) + rng.normal(0, 0.01, (8, 2))
        states = np.cumsum([rng.uniform(-0.05, 0.05, 2), *steps], axis=0).astype(np.float32)
        zeros = np.zeros(8)
        episodes.append(
            {
                "observation/state": states[:-1],
                "next_observation/state": states[1:],
                "action": np.zeros((8, 2), np.float32),
                "terminated": zeros.astype(bool),
                "truncated": zeros.astype(bool),
                "source": zeros.astype(np.uint8),
                "success": zeros.astype(np.int8),
                "term/far": states[1:, 0],
            }
        )
    return episodes


def learner() -> ReturnLearner:
    reward = ComposedRewardConfig(modules={"goal": CLASSIFIER}, offset=-1.0).make(SPEC, 0)
    return ReturnLearner(make_sac(spec=SPEC, seed=0, **AGENT), reward, SPEC, 5000, 0)


class Rig:
    """A policy that blunders towards the pit: 15 of its steps lead into it."""

    def __init__(self, least_value: float | None) -> None:
        self.world = PitWorld()
        config = LearnedConfig(attempts=1, seconds=2.0, least_value=least_value, refuses_from=REFUSES_FROM)
        self.learner = learner()
        self.resets = LearnedReset(config, SPEC, self.learner)
        self.actor = Actor(self.world, 0, resets=self.resets)
        self.steps = self.falls = 0

    def run(self, episodes: int) -> None:
        """Act until so many episodes have ended in all."""
        while self.actor.episode < episodes:
            try:
                transition = self.actor.take_step(self._choose)
            except EpisodeRefusedError as refusal:
                assert "reset.least_value is -6" in str(refusal)
                continue
            self.resets.note(transition)
            self.steps += 1
            self.falls += transition.next_observation["state"][0] > EDGE >= transition.observation["state"][0]

    def _choose(self, observation: Observation) -> ActionChoice:
        action = np.clip(generator(self.steps).normal((0.5, 0), 0.5), -1, 1).astype(np.float32)
        return ActionChoice(action, Source.POLICY)


def test_it_learns_to_return_and_ends_episodes_before_there_is_no_way_back():
    rig = Rig(least_value=-6.0)
    rig.resets.fit(demonstrations())
    rig.run(REFUSES_FROM)
    assert rig.falls >= REFUSES_FROM - 1, "the policy falls in each time"
    before, helped = rig.falls, rig.world.placed
    assert rig.resets.metrics()["practice/manual_resets"] == helped - 1
    assert rig.resets.metrics()["practice/refused_actions"] == 0
    rig.run(REFUSES_FROM + 12)
    metrics = rig.resets.metrics()
    assert rig.falls - before <= 5, "of 12 episodes"
    assert metrics["practice/refused_actions"] >= 5
    assert rig.world.placed - helped <= 6
    state = {"state": np.array([0.42, 0.0], np.float32)}
    ahead, back = (rig.learner.value(state, np.array([x, 0], np.float32)) for x in (1, -1))
    assert ahead < back, "one more step ahead and there is no way back"


def test_a_saved_one_goes_on_bit_for_bit():
    first = Rig(least_value=None)
    first.resets.fit(demonstrations())
    first.run(4)
    saved = {key: value.copy() for key, value in first.resets.state().items()}
    actor = {key: value.copy() for key, value in first.actor.state().items()}
    second = Rig(least_value=None)
    second.resets.load(saved)
    second.actor.load(actor)
    second.world.place, second.steps = first.world.place.copy(), first.steps
    second.actor.abandon_episode()
    first.actor.abandon_episode()
    for rig in (first, second):
        rig.run(6)
    expected, found = first.resets.state(), second.resets.state()
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


def test_what_it_cannot_learn_with_is_refused():
    agent = make_sac(spec=SPEC, seed=0, **AGENT)
    reward = ComposedRewardConfig(modules={"goal": CLASSIFIER}).make(SPEC, 0)
    of_steps = ComposedRewardConfig(modules={"goal": CLASSIFIER, "alike": GailConfig()}).make(SPEC, 0)
    for refused in (RewardWeights(), of_steps):
        with pytest.raises(ConfigError, match=r"reset\.reward must have modules that judge states"):
            ReturnLearner(agent, refused, SPEC, 100, 0)
    with pytest.raises(ConfigError, match=r"reset\.agent must have critics"):
        ReturnLearner(make_bc(spec=SPEC, seed=0), reward, SPEC, 100, 0)
    with pytest.raises(DataError, match=r"demonstrations\.episodes above 0"):
        ReturnLearner(agent, reward, SPEC, 100, 0).fit([])
    with pytest.raises(ConfigError, match=r"reset\.attempts must be 1 or more, got 0"):
        LearnedConfig(attempts=0)

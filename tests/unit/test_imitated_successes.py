"""Which of the learner's own steps the cloning term counts."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_module
from omegaconf import open_dict

from robo_rl.agents.bc import BCConfig
from robo_rl.agents.sac import SACConfig
from robo_rl.app import register_all_configs
from robo_rl.core import ArraySpec, EnvSpec, Interruption, RewardWeights, Source, Transition, generator
from robo_rl.replay import MixedSampler, ReplayRing
from robo_rl.training.local import LocalTraining

SPEC = EnvSpec(
    task="test",
    observation={"state": ArraySpec((1,))},
    action=ArraySpec((1,)),
    action_space="joint_delta",
    action_frame="joint",
    control_rate=10.0,
    max_episode_steps=None,
    reward_terms=("success",),
)
REWARD = RewardWeights({"success": 1.0})
POLICY, HUMAN, RANDOM = Source.POLICY, Source.HUMAN, Source.RANDOM


def episode(number: int, sources: list[Source], success: bool | None, *, ended: bool = True) -> list[Transition]:
    """An episode whose states are 100 times its number and the step."""
    states = [np.array([100 * number + step], np.float32) for step in range(len(sources) + 1)]
    last = len(sources) - 1
    return [
        Transition(
            observation={"state": state},
            proposed_action=np.zeros(1, np.float32),
            executed_action=np.zeros(1, np.float32),
            rewards={"success": 0.0},
            next_observation={"state": following},
            terminated=ended and step == last and success is True,
            truncated=ended and step == last and success is not True,
            source=source,
            actor="robot",
            session=0,
            episode=number,
            sequence=100 * number + step,
            policy_version=0,
            stamp_ns=0,
            success=success if ended and step == last else None,
        )
        for step, ((state, following), source) in enumerate(zip(pairwise(states), sources, strict=True))
    ]


EPISODES = (
    episode(1, [POLICY] * 4, True),
    episode(2, [POLICY] * 4, False),
    episode(3, [POLICY, HUMAN, POLICY], True),
    episode(4, [POLICY] * 3, None),
    episode(5, [RANDOM, POLICY], True),
    episode(6, [POLICY] * 3, True, ended=False),
)


def imitated(ring: ReplayRing, demonstrations: ReplayRing | None = None, **options: bool) -> set[int]:
    """Return the states of the rows that are imitated, after checking that a state always is or never."""
    rng = generator(0, "sampler")
    batch = MixedSampler(ring, demonstrations, 0.5, 0.9, 1, REWARD, rng, **options).sample(4_000, 100)
    states, flags = batch["observation/state"].ravel().astype(int), batch["demonstration"] == 1
    assert not set(states[flags].tolist()) & set(states[~flags].tolist())
    return set(states[flags].tolist())


def ring_of(*episodes: list[Transition], capacity: int = 60) -> ReplayRing:
    ring = ReplayRing(capacity, SPEC)
    for transitions in episodes:
        ring.append(transitions)
    return ring


def test_own_successes_are_imitated_and_nothing_else() -> None:
    ring = ring_of(*EPISODES)
    options = {"interventions_are_demonstrations": False}
    # What came before a person had to help is not to be repeated, though the episode ended well.
    assert imitated(ring, imitate_successes=True, **options) == {100, 101, 102, 103, 500, 501}
    assert imitated(ring, **options) == set()


def test_an_episode_counts_from_its_end_on() -> None:
    ring = ring_of(episode(1, [POLICY] * 4, False))
    transitions = episode(2, [POLICY] * 4, True)
    for transition in transitions[:-1]:
        ring.append([transition])
        assert imitated(ring, imitate_successes=True) == set()
    ring.append(transitions[-1:])
    assert imitated(ring, imitate_successes=True) == {200, 201, 202, 203}


def test_what_was_overwritten_is_not_imitated() -> None:
    ring = ring_of(capacity=12)
    expected: list[set[int]] = []
    for number in range(1, 30):
        ring.append(episode(number, [POLICY] * 4, number % 3 != 0))
        expected.append({100 * number + step for step in range(4)} if number % 3 else set())
        found = imitated(ring, imitate_successes=True)
        assert found <= set().union(*expected[-4:])
        assert found >= expected[-1]


def test_a_restored_ring_imitates_the_same() -> None:
    ring, restored = ring_of(*EPISODES), ring_of()
    restored.load(ring.state())
    options = {"interventions_are_demonstrations": False, "imitate_successes": True}
    assert imitated(restored, **options) == imitated(ring, **options) != set()


def test_demonstrations_are_imitated_as_before() -> None:
    shown = ring_of(episode(7, [HUMAN] * 3, True), episode(8, [HUMAN] * 3, False))
    own = ring_of(episode(1, [POLICY] * 4, True))
    assert imitated(own, shown, imitate_successes=True) == {700, 701, 702, 100, 101, 102, 103}
    assert imitated(own, shown) == {700, 701, 702}


@pytest.mark.parametrize("value", [True, False])
def test_the_option_reaches_the_rows_of_a_run(value: bool, tmp_path: Path) -> None:
    register_all_configs()
    words = ["task=peg_insert", "seed=0", "logging.progress=false", "agent.pretrain_steps=1000"]
    words += ["agent.learning_starts=999", "run.env_steps=150", "run.evaluation_interval=0", "run.video_episodes=0"]
    words += ["run.final_evaluation_episodes=1", f"agent.imitate_successes={value}", f"run.dir={tmp_path}"]
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        config = compose("train", overrides=words)
    with open_dict(config):
        config.choices = {"agent": "rlpd"}
    training = LocalTraining(config, tmp_path, Interruption())
    training.run()
    experience = training.state.experience
    assert (experience.online.rows.available.outcome == 1).any()
    batch = experience.sampler.sample(1000, 1000)
    training.close()
    assert batch["demonstration"][:500].all()
    assert batch["demonstration"][500:].any() == value


def test_only_learners_with_a_cloning_term_do() -> None:
    assert SACConfig().imitate_successes
    assert not BCConfig().imitate_successes

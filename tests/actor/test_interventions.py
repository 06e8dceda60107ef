"""Simulated experts that take over, what becomes of their steps, and the reward that punishes the step before."""

from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf, open_dict

from robo_rl.actor import ActionChoice, InterventionConfig, SimulatedIntervention
from robo_rl.app import load_agent
from robo_rl.core import CheckpointError, ConfigError, Interruption, Source
from robo_rl.rewards.modules.interventions import InterventionsConfig
from robo_rl.training.local import LocalTraining

from ..rigs.composition import composed_config

P, R, H, S = Source.POLICY, Source.RANDOM, Source.HUMAN, Source.SCRIPT


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([P, P, P], [0, 0, 0]),
        ([P, P, H, H, P], [0, -1, 0, 0, 0]),
        ([P, S, P, R, S], [-1, 0, 0, -1, 0]),
        ([H, S, H], [0, 0, 0]),
        ([S, P], [0, 0]),
        ([P], [0]),
    ],
)
def test_the_policys_last_step_is_punished(sources, expected):
    module = InterventionsConfig().make("taken_over", None, 0)
    rewards = module({"source": np.array(sources, np.uint8)})
    np.testing.assert_array_equal(rewards, expected)
    assert rewards.dtype == np.float32


class Expert:
    """Always wants the same."""

    def reset(self):
        pass

    def act(self, observation):
        return np.array([0.5, 0.5], np.float32)


def sources_of(actions, seed=0, **options):
    """Who acts in each step, where the policy would do ``actions``."""
    intervention = SimulatedIntervention(InterventionConfig(**options), Expert(), seed)
    return [intervention({}, ActionChoice(np.full(2, a, np.float32), P), step) for step, a in enumerate(actions)]


def test_random_takeovers_come_at_their_rate_and_last():
    choices = sources_of([0.0] * 20_000, criterion="random", probability=0.2, hold=3)
    by_expert = np.array([choice.source == S for choice in choices])
    # After each step of the policy's turn it is the expert's with probability 0.2, for 3 steps: 0.6 of 1.4.
    assert by_expert.mean() == pytest.approx(3 * 0.2 / (3 * 0.2 + 0.8), abs=0.02)
    changes = np.flatnonzero(np.diff(by_expert.astype(int)))
    begins, ends = changes[~by_expert[changes]], changes[by_expert[changes]]
    lengths = [end - begin for begin, end in zip(begins, ends[ends > begins[0]], strict=False)]
    assert min(lengths) == 3
    assert set(np.mod(lengths, 3)) == {0}


def test_disagreement_is_what_an_expert_reacts_to():
    options = {"criterion": "disagreement", "probability": 1.0, "false_alarm": 0.0, "threshold": 0.4, "hold": 1}
    choices = sources_of([0.5, 0.2, 0.05, -1.0, 0.5], **options)
    assert [choice.source for choice in choices] == [P, P, S, S, P]
    np.testing.assert_array_equal(choices[2].action, [0.5, 0.5])


class Valley:
    """Values of an action by its distance from the expert's, around ``best``."""

    def __init__(self, best):
        self.best = best

    def value(self, observation, action):
        return self.best - float(np.abs(action - 0.5).max())


@pytest.mark.parametrize(
    ("best", "allowed"),
    [(10.0, 0.3), (-10.0, 0.3), (0.0, 0.0)],  # 3 % of 10, also where it is below 0: there 0.97 of it is more
)
def test_an_expert_with_values_objects_to_what_is_worth_too_little(best, allowed):
    config = InterventionConfig(criterion="value", reference="a run", probability=1.0, false_alarm=0.0, hold=1)
    intervention = SimulatedIntervention(config, Expert(), 0, Valley(best))
    for distance, source in ((0.0, P), (allowed * 0.9, P), (allowed * 1.1 + 1e-4, S)):
        choice = intervention({}, ActionChoice(np.full(2, 0.5 + distance, np.float32), P), 0)
        assert choice.source == source, distance


def test_the_wrong_action_is_taken_before_a_slow_expert_has_taken_over():
    options = {"criterion": "disagreement", "probability": 1.0, "false_alarm": 0.0, "threshold": 0.4, "hold": 2}
    choices = sources_of([0.5, -1.0, 0.5, 0.5, 0.5, -1.0, -1.0], **options, reaction=1)
    assert [choice.source for choice in choices] == [P, P, S, S, P, P, S]
    rewards = InterventionsConfig().make("taken_over", None, 0)({"source": np.array([c.source for c in choices])})
    np.testing.assert_array_equal(rewards, [0, -1, 0, 0, 0, -1, 0])


def test_a_noisy_expert_stays_within_range_and_nobody_knows_what_it_wanted():
    choices = sources_of([0.0] * 200, criterion="random", probability=1.0, noise=1.0)
    actions = np.stack([choice.action for choice in choices])
    assert actions.min() == -1
    assert actions.max() == 1
    assert actions.std() > 0.5
    assert all(choice.proposed is None for choice in choices)


def test_the_same_seed_does_the_same_and_a_takeover_goes_on():
    options = {"criterion": "random", "probability": 0.3, "hold": 5, "noise": 0.1}
    one, other = (SimulatedIntervention(InterventionConfig(**options), Expert(), 3) for _ in range(2))
    policy = ActionChoice(np.zeros(2, np.float32), P)
    for step in range(50):
        one({}, policy, step)
    other.load(one.state())
    for step in range(50, 80):
        first, second = one({}, policy, step), other({}, policy, step)
        assert first.source == second.source
        np.testing.assert_array_equal(first.action, second.action)
    one.end_episode()
    assert one.state()["remaining"] == 0
    with pytest.raises(CheckpointError, match="without interventions"):
        one.load({})


def test_values_out_of_range_are_named():
    with pytest.raises(ConfigError, match=r"criterion must be one of never, random, disagreement, value, operator"):
        InterventionConfig(criterion="always")
    with pytest.raises(ConfigError, match=r"intervention.reference must be a run folder for intervention.criterion=v"):
        InterventionConfig(criterion="value")
    with pytest.raises(ConfigError, match=r"intervention.reference must be null for intervention.criterion=operator"):
        InterventionConfig(criterion="operator", reference="a run")
    with pytest.raises(ConfigError, match=r"intervention.probability must be in \[0, 1\], got 2"):
        InterventionConfig(probability=2)


def training_on(words: list[str], folder: Path) -> LocalTraining:
    words = ["task=reach", "demonstrations.episodes=0", "logging.progress=false", *words]
    words += ["run.env_steps=40", "run.evaluation_interval=0", "run.final_evaluation_episodes=1"]
    words += ["run.video_episodes=0", "agent.hidden=[8]", f"run.dir={folder}"]
    config = composed_config("train", *words)
    with open_dict(config):
        config.choices = {"agent": "rlpd"}
    return LocalTraining(config, folder, Interruption())


def test_hg_dagger_imitates_who_takes_over_and_nobody_else(tmp_path: Path) -> None:
    training = training_on(
        ["agent=hg_dagger", "intervention.criterion=random", "intervention.probability=0.2", "seed=1"], tmp_path
    )
    begun = training.state.agent.state()["actor/0/weight"].copy()
    training.run()
    batch = training.state.experience.sampler.sample(256, 256)
    moved = not np.array_equal(training.state.agent.state()["actor/0/weight"], begun)
    training.close()
    assert moved
    assert batch["demonstration"].all()


@pytest.mark.parametrize(
    ("words", "demonstrations"),
    [([], 16), (["intervention.as_demonstrations=false"], 0), (["reward=interventions"], 0)],
)
def test_interventions_are_demonstrations_unless_they_are_the_reward(
    words: list[str], demonstrations: int, tmp_path: Path
) -> None:
    chance = ["intervention.criterion=random", "intervention.probability=0.5"]
    training = training_on(["agent.implementation=torch", "agent.learning_starts=99", *chance, *words], tmp_path)
    training.run()
    batch = training.state.experience.sampler.sample(32, 32)
    training.close()
    assert training.state.experience.online.rows.available.interventions.size
    assert batch["demonstration"].sum() == demonstrations


def write_run(folder: Path, agent: str, *words: str) -> str:
    """Make a run folder with a policy that has hardly learned; return the word that makes it the expert."""
    training = training_on([f"agent={agent}", *words], folder)
    with open_dict(training.state.config):
        training.state.config.choices = {"agent": agent, "task": "reach"}
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(training.state.config))
    training.run()
    training.close()
    return f"intervention.reference={folder}"


def test_a_policy_of_another_run_takes_over_where_its_critics_object(tmp_path: Path) -> None:
    settings = ["agent.implementation=torch", "agent.learning_starts=30", "agent.action_chunk=1"]
    settings += ["agent.ensemble_size=3", "agent.update_to_data=2", "agent.batch_size=32"]
    reference = write_run(tmp_path / "reference", "rlpd", *settings)
    words = ["agent.implementation=torch", "agent.learning_starts=99", "intervention.criterion=value", reference]
    words += ["intervention.probability=1", "intervention.false_alarm=0", "intervention.reference_checkpoint=newest"]
    training = training_on([*words, "intervention.value_share=1"], tmp_path / "run")
    training.run()
    taken_over = training.state.experience.online.rows.available.interventions
    batch = training.state.experience.online.rows.gather(
        taken_over, gamma=0.9, n_step=1, reward=training.state.components.reward
    )
    spec = training.state.components.backend.spec
    training.close()
    assert 0 < taken_over.size < 40, "by its own critics the other policy is sometimes worse than chance"
    expert = load_agent(tmp_path / "reference", spec, "newest").agent
    for row in range(taken_over.size):
        observation = {key: batch[f"observation/{key}"][row] for key in spec.observation}
        np.testing.assert_allclose(batch["action"][row], expert.act(observation, explore=False), atol=1e-5)


def test_an_expert_without_critics_cannot_object_by_values(tmp_path: Path) -> None:
    reference = write_run(tmp_path / "reference", "hg_dagger", "intervention.criterion=random")
    with pytest.raises(ConfigError, match=r"needs critics, which the agent of intervention.reference="):
        training_on(["intervention.criterion=value", reference], tmp_path / "run")

"""Agents that decide several actions at once: what they learn from, how they act, and what they refuse."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf, open_dict

from robo_rl.agents.bc import BCConfig, make_bc
from robo_rl.agents.drq import make_drq
from robo_rl.agents.parts.encoder_config import EncoderConfig
from robo_rl.agents.parts.networks import apply_network
from robo_rl.agents.sac import SAC, SACConfig, make_sac
from robo_rl.agents.sac.update import critic_target
from robo_rl.app import register_all_configs
from robo_rl.app.trained import load_agent
from robo_rl.core import ArraySpec, ConfigError, Interruption, Observation, RewardWeights, Source, Transition, generator
from robo_rl.recording.episodes import PolicyChooser
from robo_rl.replay import MixedSampler, ReplayRing
from robo_rl.training.local import LocalTraining

from ..rigs.specs import toy_spec

SPEC = toy_spec({"state": ArraySpec((1,))}, 2)
SMALL = {
    "ensemble_size": 3,
    "hidden": [16, 16],
    "update_to_data": 2,
    "batch_size": 8,
    "implementation": "torch",
    "normalise_observations": False,
    "gamma": 0.9,
}


def make(seed: int = 0, h: int = 3, **fields: object) -> SAC:
    return make_sac(spec=SPEC, seed=seed, action_chunk=h, **(SMALL | fields))


def see(value: float) -> Observation:
    return {"state": np.array([value], np.float32)}


def mode(agent: SAC, value: float) -> np.ndarray:
    """What the averaged network decides, (h, A), by its layers alone."""
    output = apply_network(agent._policy.averaged, "actor", torch.tensor([[float(value)]]), "relu")
    return output[0, : output.shape[1] // 2].tanh().numpy().reshape(-1, 2)


def episode(steps: int, number: int = 0, ends: bool = True) -> list[Transition]:
    """An episode whose actions and rewards tell their step."""
    return [
        Transition(
            observation=see(t),
            proposed_action=np.array([-t, number], np.float32) / 10,
            executed_action=np.array([t, number], np.float32) / 10,
            rewards={"success": float(t + 1)},
            next_observation=see(t + 1),
            terminated=ends and t == steps - 1,
            truncated=False,
            source=Source.POLICY,
            actor="robot",
            session=0,
            episode=number,
            sequence=10 * number + t,
            policy_version=0,
            stamp_ns=0,
        )
        for t in range(steps)
    ]


REWARD = RewardWeights({"success": 1.0})
GROUPS = ("observation", "next_observation")


def test_a_target_is_the_h_step_return_and_the_value_of_the_next_chunk():
    agent = make(h=3, update_to_data=1, batch_size=5)
    ring = ReplayRing(100, SPEC)
    ring.append(episode(5))
    batch = ring.rows.gather(np.arange(5), gamma=0.9, n_step=agent.config.n_step, reward=REWARD, action_chunk=3)
    np.testing.assert_allclose(batch["action"][:, ::2] * 10, [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 4], [4, 4, 4]])
    np.testing.assert_allclose(batch["proposed_action"][:, ::2], -batch["action"][:, ::2])
    batch["demonstration"] = batch["online_example"] = np.zeros(5, np.float32)
    # Target critics that say 7 whatever they see: zero weights, and 7 for the last bias.
    for name, tensor in agent._parameters.items():
        if name.startswith("target_critic"):
            tensor.fill_(7.0 if name == "target_critic/output/bias" else 0.0)
    rows = agent._minibatches(batch)
    one = type(rows)(*(field[0] for field in rows))
    subset = torch.arange(agent.config.target_subset)
    target = critic_target(agent._parameters, agent.config, one, torch.zeros(5, 6), torch.zeros(5), subset)
    whole = [1 + 0.9 * 2 + 0.81 * 3 + 0.729 * 7, 2 + 0.9 * 3 + 0.81 * 4 + 0.729 * 7]
    np.testing.assert_allclose(target, [*whole, 3 + 0.9 * 4 + 0.81 * 5, 4 + 0.9 * 5, 5], rtol=1e-6)


def test_the_sampler_gives_chunks_of_both_rings_and_of_interventions():
    online, shown = ReplayRing(100, SPEC), ReplayRing(100, SPEC)
    online.append([replace(step, source=Source.HUMAN) for step in episode(6, 1)])
    shown.append(episode(6, 2))
    sampler = MixedSampler(online, shown, 0.5, 0.9, 3, REWARD, generator(0, "sampler"), action_chunk=3)
    batch = sampler.sample(64, 32)
    assert batch["action"].shape == batch["proposed_action"].shape == (64, 6)
    begin = batch["observation/state"][:, 0]
    for k in range(3):
        np.testing.assert_allclose(batch["action"][:, 2 * k], np.minimum(begin + k, 5) / 10, rtol=1e-6)
        np.testing.assert_array_equal(batch["action"][:, 2 * k + 1], batch["action"][:, 1])
    of_demonstrations = batch["demonstration"] == 1
    assert set((10 * batch["action"][~of_demonstrations, 1]).round()) == {1}
    assert set((10 * batch["action"][of_demonstrations, 1]).round()) == {1, 2}
    with pytest.raises(ConfigError, match=r"action_chunk must be in \[1, n_step = 2\], got 3"):
        MixedSampler(online, shown, 0.5, 0.9, 2, REWARD, generator(0, "sampler"), action_chunk=3)
    with pytest.raises(ValueError, match=r"action_chunk must be in \[1, n_step = 1\], got 2"):
        online.rows.gather(np.array([0]), gamma=0.9, n_step=1, reward=REWARD, action_chunk=2)


def test_a_chunk_is_taken_whatever_is_seen_and_then_decided_anew():
    agent = make()
    taken = np.stack([agent.act(see(x), explore=False) for x in range(1, 8)])
    np.testing.assert_allclose(taken, np.concatenate([mode(agent, 1), mode(agent, 4), mode(agent, 7)[:1]]), atol=1e-6)
    assert np.abs(taken[0] - taken[1]).max() > 1e-4, "the actions of a chunk are others"
    agent.forget_plan(explore=False)
    np.testing.assert_allclose(agent.act(see(9), explore=False), mode(agent, 9)[0], atol=1e-6)


def test_exploring_and_not_are_plans_apart_and_a_new_policy_leaves_them():
    agent, other, teacher = make(), make(), make(seed=5)
    first = agent.act(see(0), explore=True)
    np.testing.assert_array_equal(first, other.act(see(0), explore=True))
    for x in range(5):  # an evaluation in mid-chunk
        agent.act(see(x), explore=False)
    agent.forget_plan(explore=False)
    agent.load_policy(teacher.policy_state())
    for _ in range(2):
        np.testing.assert_array_equal(agent.act(see(8), explore=True), other.act(see(1), explore=True))
    assert not np.array_equal(agent.act(see(2), explore=True), other.act(see(2), explore=True)), "the other policy's"


def test_the_state_has_the_rest_of_a_chunk_and_a_policy_has_not():
    agent, resumed = make(), make(seed=4)
    agent.act(see(0), explore=True)
    agent.act(see(0), explore=False)
    resumed.load({name: array.copy() for name, array in agent.state().items()})
    for x in range(1, 8):
        for explore in (True, False):
            one, other = agent.act(see(x), explore=explore), resumed.act(see(x), explore=explore)
            np.testing.assert_array_equal(one, other)
    assert not any("plan" in name for name in agent.policy_state())
    assert not any("plan" in name for name in make(h=1).state()), "nothing is left where each step is decided"


def test_the_native_update_learns_the_same_from_chunks():
    fields = {"hidden": [32, 32], "activation": "tanh"}
    agents = [make(implementation=implementation, **fields) for implementation in ("torch", "auto")]
    ring = ReplayRing(200, SPEC)
    for number in range(3):
        ring.append(episode(8, number))
    sampler = MixedSampler(ring, None, 0.0, 0.9, 3, REWARD, generator(0, "sampler"), action_chunk=3)
    for _ in range(3):
        batch = sampler.sample(agents[0].update_rows, 8)
        metrics = [agent.update(batch) for agent in agents]
        for name, value in metrics[0].items():
            assert metrics[1][name] == pytest.approx(value, rel=1e-3, abs=1e-4), name


def test_it_learns_a_chunk_that_one_look_cannot_know_from_each_step():
    """Two steps, the first to 0.5 and the second to -0.5: the chunk that is decided before the first has both."""
    rng, ring = np.random.default_rng(0), ReplayRing(3000, SPEC)
    for number in range(1000):
        steps = []
        for t, step in enumerate(episode(2, number)):
            action = rng.uniform(-1, 1, 2).astype(np.float32)
            reward = -float(np.square(action - (0.5, -0.5)[t]).sum())
            steps.append(replace(step, executed_action=action, rewards={"success": reward}))
        ring.append(steps)
    rates = dict.fromkeys(("actor_learning_rate", "critic_learning_rate"), 1e-3)
    agent = make(h=2, hidden=[64, 64], batch_size=128, actor_tau=1.0, implementation="auto", update_to_data=4, **rates)
    sampler = MixedSampler(ring, None, 0.0, 0.9, 2, REWARD, generator(0, "sampler"), action_chunk=2)
    for _ in range(400):
        agent.update(sampler.sample(agent.update_rows, 128))
    np.testing.assert_allclose([agent.act(see(0), explore=False)[0] for _ in range(2)], [0.5, -0.5], atol=0.15)


def test_cloning_imitates_whole_chunks_and_acts_them_out():
    state = np.random.default_rng(0).uniform(-1, 1, (256, 1)).astype(np.float32)
    chunk = np.concatenate([0.5 * state, -0.5 * state, 0.8 * state**2, state - state], axis=1)
    batch = {"observation/state": state, "action": chunk, "proposed_action": chunk}
    agent = make_bc(spec=SPEC, seed=0, action_chunk=2, learning_rate=3e-3, hidden=[64])
    assert agent.config.n_step == 2
    for _ in range(400):
        loss = agent.update(batch)["bc_loss"]
    assert loss < 1e-3
    for explore in (True, False):
        taken = np.concatenate([agent.act(see(x), explore=explore) for x in (0.6, -1.0)])
        np.testing.assert_allclose(taken, [0.3, -0.3, 0.288, 0.0], atol=0.07)
    other = make_bc(spec=SPEC, seed=3, action_chunk=2, learning_rate=3e-3, hidden=[64])
    agent.act(see(0.3), explore=True)
    other.load(agent.state())
    np.testing.assert_array_equal(agent.act(see(1), explore=True), other.act(see(1), explore=True))


def test_images_are_no_obstacle():
    spec = toy_spec({"state": ArraySpec((1,)), "images/front": ArraySpec((16, 16, 3), "uint8")}, 2)
    agent = make_drq(
        spec=spec, seed=0, action_chunk=3, hidden=[16], batch_size=4, encoder=EncoderConfig(channels=(4, 4))
    )
    rng = np.random.default_rng(0)
    images = {f"{group}/images/front": rng.integers(0, 256, (4, 16, 16, 3), np.uint8) for group in GROUPS}
    states = {f"{group}/state": rng.normal(size=(4, 1)).astype(np.float32) for group in GROUPS}
    rows = {
        name: rng.uniform(size=4).astype(np.float32)
        for name in ("reward", "discount", "demonstration", "online_example")
    }
    actions = {name: rng.uniform(-1, 1, (4, 6)).astype(np.float32) for name in ("action", "proposed_action")}
    assert np.isfinite(list(agent.update(images | states | rows | actions).values())).all()
    look = see(0) | {"images/front": images["observation/images/front"][0]}
    dark = see(5) | {"images/front": np.zeros((16, 16, 3), np.uint8)}
    first = [agent.act(look, explore=False) for _ in range(3)]
    agent.forget_plan(explore=False)
    np.testing.assert_array_equal([agent.act(x, explore=False) for x in (look, dark, dark)], first)


def test_returns_are_those_of_whole_chunks():
    assert SACConfig(action_chunk=4).n_step == 4
    assert SACConfig(action_chunk=4, n_step=4).n_step == 4
    assert SACConfig(n_step=3).n_step == 3
    with pytest.raises(ConfigError, match=r"agent.n_step must be 1 or agent.action_chunk = 4, as returns are .* got 3"):
        SACConfig(action_chunk=4, n_step=3)
    for config in (SACConfig, BCConfig):
        with pytest.raises(ConfigError, match=r"agent.action_chunk must be 1 or more, got 0"):
            config(action_chunk=0)


def test_values_of_single_actions_are_refused():
    agent = make()
    with pytest.raises(ConfigError, match=r"agent.action_chunk must be 1 where values of single actions are required"):
        agent.value(see(0), np.zeros(2, np.float32))


# --- in runs ---------------------------------------------------------------------------------------------------------


def training_on(folder: Path, agent: str, *words: str) -> LocalTraining:
    register_all_configs()
    shared = ["task=reach", f"agent={agent}", "demonstrations.episodes=0", "logging.progress=false", "seed=1"]
    shared += ["run.env_steps=60", "run.evaluation_interval=7", "run.evaluation_episodes=1", "run.video_episodes=0"]
    shared += ["run.final_evaluation_episodes=1", "agent.hidden=[8]", f"run.dir={folder}"]
    shared += ["agent.implementation=torch", "agent.learning_starts=55"] if agent == "rlpd" else []
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        config = compose("train", overrides=[*shared, *words])
    with open_dict(config):
        config.choices = {"agent": agent, "task": "reach"}
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(config))
    return LocalTraining(config, folder, Interruption())


@pytest.mark.parametrize("agent", ["rlpd", "hg_dagger"])
def test_training_decides_anew_where_an_episode_begins_and_after_others_acted(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["intervention.criterion=random", "intervention.false_alarm=0.15", "intervention.probability=0.15"]
    training = training_on(tmp_path, agent, "agent.action_chunk=4", "intervention.hold=2", *words)
    policy, decided, taken = training.state.agent._policy, [], []
    decide, act, insert, explores = policy._decide, policy.act, training.state.experience.insert, [False]

    def noted_act(observation, *, explore, **options):
        explores[0] = explore
        return act(observation, explore=explore, **options)

    def noted_decide(observation, sample):
        if explores[0]:
            decided.append(training.state.step)
        return decide(observation, sample)

    def noted_insert(transition):
        taken.append(transition)
        return insert(transition)

    monkeypatch.setattr(policy, "act", noted_act)
    monkeypatch.setattr(policy, "_decide", noted_decide)
    monkeypatch.setattr(training.state.experience, "insert", noted_insert)
    training.run()
    training.close()
    expected, left, previous = [], 0, None
    for step, transition in enumerate(taken):
        if previous is None or previous.episode != transition.episode or previous.source is not Source.POLICY:
            left = 0
        if left == 0:
            expected.append(step)
            left = 4
        left -= 1
        previous = transition
    assert decided == expected
    assert {transition.source for transition in taken} == {Source.POLICY, Source.SCRIPT}
    assert taken[-1].episode > 0
    assert {after - before for before, after in pairwise(expected)} >= {1, 4}


def test_values_of_single_actions_are_refused_before_anything_is_learned(tmp_path: Path) -> None:
    folder = tmp_path / "reference"
    alone = "run.evaluation_interval=0"
    reference = training_on(folder, "rlpd", "agent.action_chunk=2", "run.env_steps=5", alone)
    reference.run()
    reference.close()
    words = ["intervention.criterion=value", f"intervention.reference={folder}"]
    words += ["intervention.reference_checkpoint=newest"]
    with pytest.raises(ConfigError, match=r"agent.action_chunk must be 1 in the run of intervention.reference for"):
        training_on(tmp_path / "value", "rlpd", *words)
    with pytest.raises(ConfigError, match=r"reset.agent.action_chunk must be 1, as it judges and takes single actions"):
        training_on(tmp_path / "reset", "rlpd", "reset=learned", "reset.agent.action_chunk=2")
    words[0] = "intervention.criterion=disagreement"
    words += ["intervention.false_alarm=1", "intervention.hold=4"]
    training = training_on(tmp_path / "run", "rlpd", *words, alone)
    training.run()
    slots = training.state.experience.online.rows.available.interventions
    batch = training.state.experience.online.rows.gather(
        slots, gamma=1, n_step=1, reward=training.state.components.reward
    )
    training.close()
    expert = load_agent(folder, training.state.components.backend.spec, "newest").agent
    assert slots.size == 60
    for row in range(slots.size):  # with each look it decides anew: an expert has no memory
        seen = {k.removeprefix("observation/"): v[row] for k, v in batch.items() if k.startswith("observation/")}
        expert.forget_plan(explore=False)
        np.testing.assert_allclose(batch["action"][row], expert.act(seen, explore=False), atol=1e-5)


class Told:
    """A policy that notes what it is told, and an actor that begins episodes."""

    def __init__(self) -> None:
        self.told: list[bool] = []

    def act(self, observation: Observation, *, explore: bool) -> np.ndarray:
        return np.zeros(2, np.float32)

    def forget_plan(self, *, explore: bool) -> None:
        self.told.append(explore)

    def begin_episode(self) -> None: ...


@pytest.mark.parametrize("explore", [False, True])
def test_an_episode_that_is_collected_begins_with_a_decision(explore: bool) -> None:
    policy = Told()
    PolicyChooser(policy, 0, explore, 0.0, np.random.default_rng(0)).begin(policy)
    assert policy.told == [explore]

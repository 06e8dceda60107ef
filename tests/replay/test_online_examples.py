"""The steps of the running training that are imitated."""

import dataclasses
from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import open_dict

from robo_rl.core import ArraySpec, Interruption, RewardWeights, Source, Transition, generator
from robo_rl.replay import MixedSampler, ReplayRing
from robo_rl.training.local import LocalTraining

from ..rigs.composition import composed_config
from ..rigs.specs import joint_spec

SPEC = joint_spec({"state": ArraySpec((1,))})
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
    """Return the states of the rows that are examples, after checking that a state always is or never."""
    rng = generator(0, "sampler")
    batch = MixedSampler(ring, demonstrations, 0.5, 0.9, 1, REWARD, rng, imitate_online=True, **options).sample(
        4_000, 100
    )
    states, flags = batch["observation/state"].ravel().astype(int), batch["online_example"] == 1
    assert not set(states[flags].tolist()) & set(states[~flags].tolist())
    return set(states[flags].tolist())


def ring_of(*episodes: list[Transition], capacity: int = 60) -> ReplayRing:
    ring = ReplayRing(capacity, SPEC)
    for transitions in episodes:
        ring.append(transitions)
    return ring


def test_own_successes_are_imitated_and_nothing_else() -> None:
    ring = ring_of(*EPISODES)
    # What came before a person had to help is not to be repeated, though the episode ended well.
    assert imitated(ring, interventions_are_demonstrations=False) == {100, 101, 102, 103, 302, 500, 501}


def test_interventions_are_examples_too() -> None:
    ring = ring_of(*EPISODES)
    batch = MixedSampler(ring, None, 0.5, 0.9, 1, REWARD, generator(0, "sampler"), imitate_online=True).sample(
        4_000, 100
    )
    examples = batch["observation/state"].ravel()[batch["online_example"] == 1].astype(int)
    assert set(examples.tolist()) == {100, 101, 102, 103, 301, 302, 500, 501}
    assert (batch["demonstration"] == 1).sum() == 40, "one row of each minibatch, as there is one intervention"


def test_an_episode_counts_from_its_end_on() -> None:
    ring = ring_of(episode(1, [POLICY] * 4, False))
    transitions = episode(2, [POLICY] * 4, True)
    for transition in transitions[:-1]:
        ring.append([transition])
        assert imitated(ring) == set()
    ring.append(transitions[-1:])
    assert imitated(ring) == {200, 201, 202, 203}


def test_what_was_overwritten_is_not_imitated() -> None:
    ring = ring_of(capacity=12)
    expected: list[set[int]] = []
    for number in range(1, 30):
        ring.append(episode(number, [POLICY] * 4, number % 3 != 0))
        expected.append({100 * number + step for step in range(4)} if number % 3 else set())
        found = imitated(ring)
        assert found <= set().union(*expected[-4:])
        assert found >= expected[-1]


def test_a_restored_ring_imitates_the_same() -> None:
    ring, restored = ring_of(*EPISODES), ring_of()
    restored.load(ring.state())
    options = {"interventions_are_demonstrations": False}
    assert imitated(restored, **options) == imitated(ring, **options) != set()


def test_demonstrations_are_no_examples_of_the_running_training() -> None:
    demonstrations = ring_of(episode(7, [HUMAN] * 3, True), episode(8, [HUMAN] * 3, False))
    own = ring_of(episode(1, [POLICY] * 4, True))
    assert imitated(own, demonstrations) == {100, 101, 102, 103}


def test_own_successes_take_the_place_of_demonstrations() -> None:
    demonstrations = ring_of(episode(7, [HUMAN] * 6, True), episode(8, [HUMAN] * 2, False))
    own = ring_of(episode(1, [POLICY] * 4, False))
    sampler = MixedSampler(own, demonstrations, 0.5, 0.9, 1, REWARD, generator(0, "sampler"), imitate_online=True)

    def weights() -> dict[int, set[float]]:
        batch = sampler.sample(4_000, 100)
        states, weights = batch["observation/state"].ravel().astype(int), batch["demonstration"]
        return {number: set(weights[states // 100 == number].tolist()) for number in (1, 7, 8)}

    assert weights() == {1: {0.0}, 7: {1.0}, 8: {0.0}}
    own.append(episode(2, [POLICY] * 4, True))
    assert weights() == {1: {0.0}, 7: {0.5}, 8: {0.0}}  # 8 steps of demonstrations, 2 * 4 of a success
    own.append(episode(3, [POLICY] * 8, True))
    assert weights() == {1: {0.0}, 7: {0.25}, 8: {0.0}}


def test_without_imitation_nothing_fades() -> None:
    demonstrations, own = ring_of(episode(7, [HUMAN] * 6, True)), ring_of(episode(1, [POLICY] * 4, True))
    batch = MixedSampler(own, demonstrations, 0.5, 0.9, 1, REWARD, generator(0, "sampler")).sample(4_000, 100)
    assert set(batch["demonstration"].tolist()) == {0.0, 1.0}
    assert not batch["online_example"].any()


def test_a_run_has_them(tmp_path: Path) -> None:
    words = ["task=peg_insert", "seed=0", "logging.progress=false", "agent.pretrain_steps=1000"]
    words += ["demonstrations.source=expert", "agent.action_chunk=1"]  # so that some of its first episodes succeed
    words += ["agent.learning_starts=999", "run.env_steps=150", "run.evaluation_interval=0", "run.video_episodes=0"]
    words += ["run.final_evaluation_episodes=1", f"run.dir={tmp_path}"]
    config = composed_config("train", *words)
    with open_dict(config):
        config.choices = {"agent": "rlpd"}
    training = LocalTraining(config, tmp_path, Interruption())
    training.run()
    batch = training.state.experience.sampler.sample(1000, 1000)
    training.close()
    assert (batch["demonstration"][:500] > 0).all()
    assert (batch["demonstration"][:500] < 1).all()
    assert not batch["online_example"][:500].any()
    assert batch["online_example"][500:].any()


@settings(max_examples=60)
@given(data=st.data())
def test_outcomes_are_those_of_the_episodes(data: st.DataObject) -> None:
    """Two robots whose episodes interleave in a ring too small for all of them, some of which never end."""
    ring = ring_of(capacity=data.draw(st.integers(6, 40)))
    known: dict[int, tuple[int, bool]] = {}  # of each state: outcome, and whether it is an own success
    running: dict[str, list[Transition]] = {"a": [], "b": []}
    number = {"a": 0, "b": 1000}
    for _ in range(data.draw(st.integers(1, 60))):
        actor = data.draw(st.sampled_from("ab"))
        if not running[actor]:
            number[actor] += 1
            sources = data.draw(st.lists(st.sampled_from([POLICY, HUMAN]), min_size=1, max_size=6))
            success, ended = data.draw(st.sampled_from([True, False, None])), data.draw(st.booleans())
            steps = episode(number[actor], sources, success, ended=ended)
            running[actor] = [dataclasses.replace(step, actor=actor) for step in steps]
            outcome = -1 if success is None or not ended else int(success)
            known |= {
                100 * number[actor] + step: (outcome, outcome == 1 and HUMAN not in sources[step:])
                for step in range(len(sources))
            }
        ring.append([running[actor].pop(0)])
        available = ring.rows.available
        for loaded in (available, reload(ring).rows.available):
            slots = np.sort(loaded.members)
            if not len(slots):
                continue
            states = ring.rows.gather(slots, gamma=0.9, n_step=1, reward=REWARD)["observation/state"].ravel()
            for slot, state in zip(slots, states.astype(int).tolist(), strict=True):
                left = {int(step.observation["state"][0]) for steps in running.values() for step in steps}
                over = not any(other // 100 == state // 100 for other in left)
                expected = known[state] if over else (-1, False)
                assert (loaded.outcome[slot], loaded.own_success[slot]) == expected
            by_people = ring.rows.labels(slots)["source"] == HUMAN
            assert loaded.interventions.tolist() == slots[by_people].tolist()
            assert loaded.not_failed.tolist() == slots[loaded.outcome[slots] != 0].tolist()


def reload(ring: ReplayRing) -> ReplayRing:
    loaded = ReplayRing(ring.capacity, SPEC)
    loaded.load(ring.state())
    return loaded

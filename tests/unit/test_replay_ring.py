"""The replay ring against a plain list of transitions."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save
from scipy.stats import chisquare

from robo_rl.core import (
    ArraySpec,
    CheckpointError,
    ConfigError,
    EnvSpec,
    RewardWeights,
    Source,
    SpecError,
    Transition,
    generator,
)
from robo_rl.replay import ReplayRing

SPEC = EnvSpec(
    task="test",
    observation={"state": ArraySpec((2,)), "images/front": ArraySpec((4, 4, 3), "uint8")},
    action=ArraySpec((2,), low=-1, high=1),
    action_space="joint_delta",
    action_frame="joint",
    control_rate=10.0,
    max_episode_steps=None,
    reward_terms=("success", "distance"),
)
REWARD = RewardWeights({"success": 2.0, "distance": -0.5}, offset=-1.0)


def observe(number: int):
    """An observation that tells its number, in the state and in the pixels."""
    pixels = np.array([number % 256, number // 256, 7], dtype=np.uint8)
    return {
        "state": np.array([number, -number], dtype=np.float32),
        "images/front": np.broadcast_to(pixels, (4, 4, 3)).copy(),
    }


def number_of(state, image):
    """Inverse of observe; fails where state and image are not of the same moment."""
    number = int(state[0])
    expected = observe(number)
    np.testing.assert_array_equal(state, expected["state"])
    np.testing.assert_array_equal(image, expected["images/front"])
    return number


class Stream:
    """Transitions of several actors, from a list of (actor, event)."""

    def __init__(self) -> None:
        self.observations = 0
        self.open = {}

    def fresh(self):
        self.observations += 1
        return observe(self.observations)

    def next(self, actor: int, event: str) -> Transition:
        session, episode, sequence, observation = self.open.get(actor, (0, 0, 0, None))
        if event == "session":
            session, episode, sequence, observation = session + 1, 0, 0, None
        if event == "lost":
            sequence += 1
            observation = None
        if event == "other observation" or observation is None:
            observation = self.fresh()
        following = self.fresh()
        random = np.random.default_rng(self.observations)
        transition = Transition(
            observation=observation,
            proposed_action=np.zeros(2, np.float32),
            executed_action=random.uniform(-1, 1, 2).astype(np.float32),
            rewards={"success": float(random.integers(0, 2)), "distance": float(random.normal())},
            next_observation=following,
            terminated=event == "terminate",
            truncated=event == "truncate",
            source=Source(int(random.integers(0, 4))),
            actor=f"robot {actor}",
            session=session,
            episode=episode,
            sequence=sequence,
            policy_version=int(random.integers(-1, 9)),
            stamp_ns=self.observations,
            success=[None, False, True][int(random.integers(0, 3))],
        )
        ended = transition.terminated or transition.truncated
        self.open[actor] = (session, episode + ended, sequence + 1, None if ended else following)
        return transition


@dataclass
class Held:
    """A transition in the model: serial numbers of the two observations, and what follows."""

    transition: Transition
    serial: int
    next_serial: int
    follower: "Held | None" = None


class Model:
    """What a ring must hold, from serial numbers of the observations: the newest ``capacity`` of them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.newest = 0
        self.all = []
        self.last = {}

    def append(self, transition: Transition) -> None:
        previous = self.last.get(transition.actor)
        linked = (
            previous is not None
            and transition.follows(previous.transition)
            and transition.observation["state"][0] == previous.transition.next_observation["state"][0]
            # One more observation is about to be stored, and must not push this one out.
            and previous.next_serial > self.newest + 1 - self.capacity
        )
        serial = previous.next_serial if linked else self.newest + 1
        self.newest = max(self.newest, serial) + 1
        held = Held(transition, serial, self.newest)
        if linked:
            previous.follower = held
        self.last[transition.actor] = held
        self.all.append(held)

    def rows(self):
        """The transitions held, by the number of their observation."""
        return {
            int(held.transition.observation["state"][0]): held
            for held in self.all
            if held.serial > self.newest - self.capacity
        }


def expected_row(held: Held, gamma: float, n_step: int):
    """Reward, discount and next observation by the definition."""
    total, steps = 0.0, 0
    while True:
        rewards = held.transition.rewards
        total += gamma**steps * (2.0 * rewards["success"] - 0.5 * rewards["distance"] - 1.0)
        steps += 1
        if steps == n_step or held.follower is None:
            break
        held = held.follower
    discount = 0.0 if held.transition.terminated else gamma**steps
    return total, discount, int(held.transition.next_observation["state"][0])


def compare(ring: ReplayRing, model: Model, gamma: float, n_step: int, rng) -> None:
    rows = model.rows()
    assert len(ring) == len(rows)
    indices = ring.sample_indices(60 * len(rows), rng)
    batch = ring.gather(indices, gamma=gamma, n_step=n_step, reward=REWARD)
    labels = ring.labels(indices)
    seen, first = np.unique(batch["observation/state"][:, 0], return_index=True)
    assert set(seen.astype(int)) == rows.keys()
    for row in first:
        number = number_of(batch["observation/state"][row], batch["observation/images/front"][row])
        transition = rows[number].transition
        reward, discount, following = expected_row(rows[number], gamma, n_step)
        assert batch["reward"][row] == pytest.approx(reward, rel=1e-5, abs=1e-5)
        assert batch["discount"][row] == pytest.approx(discount, rel=1e-6)
        found = number_of(batch["next_observation/state"][row], batch["next_observation/images/front"][row])
        assert found == following
        np.testing.assert_array_equal(batch["action"][row], transition.executed_action)
        assert labels["source"][row] == transition.source
        assert labels["policy_version"][row] == transition.policy_version
        assert labels["success"][row] == (-1 if transition.success is None else transition.success)
        assert labels["terminated"][row] == transition.terminated
        assert labels["truncated"][row] == transition.truncated


EVENTS = ["step"] * 6 + ["terminate", "truncate", "lost", "session", "other observation"]


@settings(max_examples=300, deadline=None)
@given(
    capacity=st.integers(2, 23),
    script=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(EVENTS)), min_size=1, max_size=120),
    n_step=st.integers(1, 5),
    chunk=st.integers(1, 9),
)
def test_every_row_is_a_true_transition_and_every_transition_is_reached(capacity, script, n_step, chunk):
    ring, model, stream, rng = ReplayRing(capacity, SPEC), Model(capacity), Stream(), np.random.default_rng(0)
    for start in range(0, len(script), chunk):
        transitions = [stream.next(actor, event) for actor, event in script[start : start + chunk]]
        assert ring.append(transitions) == len(transitions)
        for transition in transitions:
            model.append(transition)
        compare(ring, model, 0.9, n_step, rng)


def fill(ring: ReplayRing, script) -> list[Transition]:
    stream = Stream()
    transitions = [stream.next(actor, event) for actor, event in script]
    ring.append(transitions)
    return transitions


def episode(steps: int, end: str, actor: int = 0):
    return [(actor, "step")] * (steps - 1) + [(actor, end)]


def rows_by_number(ring: ReplayRing, n_step: int = 1):
    """All rows, as (observation, next observation, discount) by number of the observation."""
    batch = ring.gather(
        np.unique(ring.sample_indices(50 * len(ring), np.random.default_rng(1))),
        gamma=0.5,
        n_step=n_step,
        reward=REWARD,
    )
    return {
        number_of(batch["observation/state"][row], batch["observation/images/front"][row]): (
            number_of(batch["next_observation/state"][row], batch["next_observation/images/front"][row]),
            float(batch["discount"][row]),
        )
        for row in range(len(batch["reward"]))
    }


def test_segment_that_crosses_the_seam():
    ring = ReplayRing(8, SPEC)
    fill(ring, [(0, "step")] * 20)
    # Observations 1 to 21; the newest 8 are kept, 14 to 21, and the last begins no transition yet.
    assert rows_by_number(ring) == {number: (number + 1, 0.5) for number in range(14, 21)}


def test_truncation_at_the_seam_keeps_its_final_observation_and_bootstraps_from_it():
    ring = ReplayRing(8, SPEC)
    # 8 observations fill the ring exactly; the next episode begins in slot 0.
    fill(ring, episode(7, "truncate") + episode(3, "truncate"))
    rows = rows_by_number(ring, n_step=4)
    assert rows[7] == (8, 0.5)
    assert rows[5] == (8, 0.125)
    assert rows[9] == (12, 0.125)
    assert set(rows) == {5, 6, 7, 9, 10, 11}


def test_termination_has_no_value_beyond_it():
    ring = ReplayRing(20, SPEC)
    fill(ring, episode(3, "terminate"))
    assert rows_by_number(ring, n_step=2) == {1: (3, 0.25), 2: (4, 0.0), 3: (4, 0.0)}


def test_lost_data_is_not_bridged():
    ring = ReplayRing(20, SPEC)
    fill(ring, [(0, "step"), (0, "lost"), (0, "step")])
    assert rows_by_number(ring, n_step=3) == {1: (2, 0.5), 3: (5, 0.25), 4: (5, 0.5)}


def test_actors_in_turns_cost_no_more_slots_than_one_after_the_other():
    ring = ReplayRing(2 * 11, SPEC)
    fill(ring, [(actor, "step") for _ in range(10) for actor in (0, 1)])
    assert len(ring) == 20
    chains = rows_by_number(ring, n_step=10)
    assert chains[1] == (20 + 1, 0.5**10)


def test_sampling_is_uniform():
    ring = ReplayRing(60, SPEC)
    fill(ring, [step for length in (1, 2, 9, 30, 4, 17, 5, 1, 1, 8) for step in episode(length, "truncate")])
    counts = np.bincount(ring.sample_indices(300_000, np.random.default_rng(3)), minlength=60)
    counts = counts[counts > 0]
    assert len(counts) == len(ring) < 60
    assert chisquare(counts).pvalue > 1e-3


def test_images_are_stored_once():
    image = ArraySpec((64, 64, 3), "uint8")
    spec = dataclasses.replace(SPEC, observation={"state": ArraySpec((2,)), "images/front": image})
    ring = ReplayRing(1000, spec)
    assert 64 * 64 * 3 * 1000 < ring.memory_bytes < 64 * 64 * 3 * 1000 * 1.02
    assert ring.metrics()["memory_bytes"] == ring.memory_bytes


@settings(max_examples=40, deadline=None)
@given(
    capacity=st.integers(3, 20),
    before=st.lists(st.tuples(st.integers(0, 1), st.sampled_from(EVENTS)), max_size=60),
    after=st.lists(st.tuples(st.integers(0, 1), st.sampled_from(EVENTS)), min_size=1, max_size=40),
)
def test_state_goes_on_bit_for_bit(capacity, before, after):
    unbroken, stream = ReplayRing(capacity, SPEC), Stream()
    unbroken.append([stream.next(*step) for step in before])
    fresh, used = ReplayRing(capacity, SPEC), ReplayRing(capacity, SPEC)
    fill(used, [(0, "step")] * 7)  # what it held before must not shine through
    saved = save(unbroken.state())
    rings = (unbroken, fresh, used)
    for ring in rings[1:]:
        ring.load(load(saved))
    rngs = [generator(1, "sample") for _ in rings]
    for step in after:
        transition = stream.next(*step)
        batches = []
        for ring, rng in zip(rings, rngs, strict=True):
            ring.append([transition])
            batches.append(ring.gather(ring.sample_indices(32, rng), gamma=0.9, n_step=3, reward=REWARD))
        for key, value in batches[0].items():
            assert value.tobytes() == batches[1][key].tobytes() == batches[2][key].tobytes(), key
    for key, value in unbroken.state().items():
        assert value.tobytes() == fresh.state()[key].tobytes(), key


def test_state_holds_the_filled_part_alone():
    ring = ReplayRing(100_000, SPEC)
    fill(ring, episode(9, "terminate"))
    assert all(len(value) == 10 for name, value in ring.state().items() if name != "facts")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (ReplayRing(9, SPEC), "replay: expected capacity 9, found 8; resume with the configuration of the run"),
        (
            ReplayRing(8, dataclasses.replace(SPEC, reward_terms=("distance", "success"))),
            "replay: expected reward_terms ['distance', 'success'], found ['success', 'distance']; resume with the "
            "configuration of the run",
        ),
        (
            ReplayRing(8, dataclasses.replace(SPEC, action=ArraySpec((3,)))),
            "replay 'action': expected float32 rows of shape (3,), at most 8, found float32 (4, 2)",
        ),
    ],
)
def test_state_of_another_ring_is_refused(other, message):
    ring = ReplayRing(8, SPEC)
    fill(ring, episode(3, "terminate"))
    with pytest.raises(CheckpointError) as caught:
        other.load(ring.state())
    assert str(caught.value) == message


def test_state_without_an_observation_is_refused():
    ring = ReplayRing(8, dataclasses.replace(SPEC, observation={"state": ArraySpec((2,))}))
    with pytest.raises(CheckpointError, match="images/front"):
        ReplayRing(8, SPEC).load(ring.state())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observation": {"state": np.zeros(2, np.float32)}}, "expected keys ['images/front', 'state'], got ['state']"),
        ({"next_observation": observe(1) | {"state": np.zeros(3, np.float32)}}, "next observation 'state': expected"),
        ({"executed_action": np.array([0, np.nan], np.float32)}, "executed action: expected finite values"),
        ({"executed_action": np.array([0, 1.5], np.float32)}, "executed action: expected values in [-1, 1]"),
        ({"rewards": {"success": 1.0}}, "expected terms ['distance', 'success'], got ['success']"),
        ({"rewards": {"success": 1.0, "distance": float("inf")}}, "rewards: expected finite terms"),
    ],
)
def test_append_takes_all_or_nothing(change, message):
    ring, stream = ReplayRing(20, SPEC), Stream()
    good = [stream.next(0, "step") for _ in range(3)]
    bad = dataclasses.replace(stream.next(0, "step"), **change)
    with pytest.raises(SpecError) as caught:
        ring.append([*good, bad])
    assert message in str(caught.value)
    assert len(ring) == 0
    ring.append(good)
    assert len(ring) == 3


def test_more_keys_and_terms_than_the_spec_has_are_left_out():
    narrow = dataclasses.replace(SPEC, observation={"state": SPEC.observation["state"]}, reward_terms=("distance",))
    ring = ReplayRing(20, narrow)
    transitions = fill(ring, episode(4, "terminate"))
    batch = ring.everything(RewardWeights({"distance": 1.0}))
    assert not any("images" in key for key in batch)
    np.testing.assert_allclose(
        np.sort(batch["reward"]), np.sort([t.rewards["distance"] for t in transitions]), rtol=1e-6
    )


def test_statistics_are_those_of_the_observations_held():
    ring = ReplayRing(15, SPEC)
    fill(ring, [step for length in (5, 3, 20) for step in episode(length, "truncate")])
    states = ring.everything(REWARD)["observation/state"].astype(np.float64)
    statistics = ring.statistics()
    assert statistics.keys() == {"state"}
    np.testing.assert_allclose(statistics["state"].mean, states.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(statistics["state"].std, states.std(axis=0), rtol=1e-6)


def test_out_arrays_are_filled_in_place_minibatch_by_minibatch():
    ring = ReplayRing(40, SPEC)
    fill(ring, [step for length in (7, 3, 11) for step in episode(length, "truncate")])
    indices = ring.sample_indices(12, np.random.default_rng(0))
    plain = ring.gather(indices, gamma=0.9, n_step=3, reward=REWARD)
    whole = ring.empty_batch((3, 6))
    for value in whole.values():
        value[...] = 99
    part = {key: value[:, 2:] for key, value in whole.items()}
    ring.gather(indices.reshape(3, 4), gamma=0.9, n_step=3, reward=REWARD, out=part)
    for key, value in whole.items():
        np.testing.assert_array_equal(value[:, 2:].reshape(plain[key].shape), plain[key])
        assert (value[:, :2] == 99).all()


def test_slots_without_a_transition_are_refused():
    ring = ReplayRing(10, SPEC)
    fill(ring, episode(3, "terminate"))
    for slots in ([3], [0, 9], [-1], [10]):
        with pytest.raises(IndexError):
            ring.gather(np.array(slots), gamma=0.9, n_step=1, reward=REWARD)
        with pytest.raises(IndexError):
            ring.labels(np.array(slots))


def test_unknown_reward_term_is_named_with_the_nearest():
    ring = ReplayRing(10, SPEC)
    fill(ring, episode(3, "terminate"))
    with pytest.raises(ConfigError, match=r"'succes'.*did you mean 'success'"):
        ring.gather(np.array([0]), gamma=0.9, n_step=1, reward=RewardWeights({"succes": 1.0}))


def test_empty_ring_and_impossible_capacity():
    ring = ReplayRing(10, SPEC)
    with pytest.raises(ValueError, match="empty"):
        ring.sample_indices(1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="empty"):
        ring.statistics()
    with pytest.raises(ConfigError, match="must be 2 or more, got 1"):
        ReplayRing(1, SPEC)
    with pytest.raises(ConfigError, match="does not fit into memory"):
        ReplayRing(10**15, SPEC)


def test_metrics_count_human_actions():
    ring, stream = ReplayRing(10, SPEC), Stream()
    for source in (Source.HUMAN, Source.POLICY, Source.POLICY, Source.SCRIPT):
        ring.append([dataclasses.replace(stream.next(0, "step"), source=source)])
    metrics = ring.metrics()
    assert metrics["transitions"] == 4
    assert metrics["human_fraction"] == 0.25

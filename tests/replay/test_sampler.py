"""Mixed batches: exact shares, fall-backs, determinism."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from robo_rl.core import (
    ArraySpec,
    CheckpointError,
    ConfigError,
    DataError,
    RewardWeights,
    Source,
    Transition,
    generator,
)
from robo_rl.replay import MixedSampler, ReplayRing

from ..rigs.specs import joint_spec

SPEC = joint_spec({"state": ArraySpec((1,)), "images/front": ArraySpec((2, 2, 3), "uint8")})
REWARD = RewardWeights({"success": 1.0})


def ring_of(states: range, capacity: int = 100, teachers: Mapping[int, Source] = MappingProxyType({})) -> ReplayRing:
    """A ring of one segment; the states of demonstrations are negative in these tests.

    Who acted in the states in ``teachers`` is said there; in all others it was the policy.
    """

    def observe(value):
        return {
            "state": np.array([value], np.float32),
            "images/front": np.full((2, 2, 3), abs(value), np.uint8),
        }

    ring = ReplayRing(capacity, SPEC)
    ring.append(
        [
            Transition(
                observation=observe(value),
                proposed_action=np.zeros(1, np.float32),
                executed_action=np.zeros(1, np.float32),
                rewards={"success": float(value)},
                next_observation=observe(value + states.step),
                terminated=False,
                truncated=False,
                source=teachers.get(value, Source.POLICY),
                actor="robot",
                session=0,
                episode=0,
                sequence=sequence,
                policy_version=0,
                stamp_ns=0,
            )
            for sequence, value in enumerate(states)
        ]
    )
    return ring


def sampler_of(online, demonstrations, ratio=0.5, n_step=1, seed=0, **options) -> MixedSampler:
    return MixedSampler(online, demonstrations, ratio, 0.9, n_step, REWARD, generator(seed, "sampler"), **options)


ONLINE = ring_of(range(1, 31))
DEMONSTRATIONS = ring_of(range(-1, -16, -1))
# Two takeovers: by a person at 5, and at 20 to 22 by a script, at once before the policy goes on.
TAKEN_OVER = ring_of(range(1, 31), teachers={5: Source.HUMAN, **dict.fromkeys((20, 21, 22), Source.SCRIPT)})


@given(ratio=st.floats(0, 1), minibatches=st.integers(1, 5), block=st.integers(1, 17), n_step=st.integers(1, 4))
def test_each_minibatch_holds_its_exact_share_of_demonstrations(ratio, minibatches, block, n_step):
    batch = sampler_of(ONLINE, DEMONSTRATIONS, ratio, n_step).sample(minibatches * block, block)
    for key, value in batch.items():
        assert len(value) == minibatches * block, key
        assert value.flags.c_contiguous
    states = batch["observation/state"].reshape(minibatches, block)
    assert ((states < 0).sum(axis=1) == round(ratio * block)).all()
    # Rows hang together: image, next state and discount belong to the state.
    following = batch["next_observation/state"].ravel()
    steps = np.abs(following - states.ravel())
    np.testing.assert_array_equal(batch["observation/images/front"][:, 0, 0, 0], np.abs(states.ravel()))
    np.testing.assert_array_equal(batch["next_observation/images/front"][:, 1, 1, 2], np.abs(following))
    np.testing.assert_allclose(batch["discount"], 0.9**steps, rtol=1e-6)
    expected = [
        sum(0.9**k * (state + np.sign(state) * k) for k in range(int(count)))
        for state, count in zip(states.ravel(), steps, strict=True)
    ]
    np.testing.assert_allclose(batch["reward"], expected, rtol=1e-5)


def test_rows_are_uniform_within_each_part():
    states = sampler_of(ONLINE, DEMONSTRATIONS, 0.25).sample(200_000, 100)["observation/state"]
    for part, size, rows in ((states[states > 0], 30, 150_000), (states[states < 0], 15, 50_000)):
        counts = np.unique(part, return_counts=True)[1]
        assert len(counts) == size
        assert counts.sum() == rows
        assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("demonstrations", [DEMONSTRATIONS, None, ReplayRing(10, SPEC)])
def test_what_a_person_did_is_online_data_and_demonstration(demonstrations):
    sampler = sampler_of(TAKEN_OVER, demonstrations, 0.25, n_step=2)
    batch = sampler.sample(80_000, 100)
    states = batch["observation/state"].reshape(800, 100)
    is_demonstration = batch["demonstration"].reshape(800, 100).astype(bool)
    # Four steps of people alone are no quarter of a minibatch: each is in it about once.
    share = 25 if demonstrations is DEMONSTRATIONS else 4
    assert (is_demonstration == (np.arange(100) < share)).all()
    demonstrated = {5, 20, 21, 22} | (set(range(-15, 0)) if demonstrations is DEMONSTRATIONS else set())
    for rows, expected in ((states[:, :share], demonstrated), (states[:, share:], set(range(1, 31)))):
        values, counts = np.unique(rows, return_counts=True)
        assert set(values.tolist()) == expected
        assert chisquare(counts).pvalue > 1e-3
    # Rows hang together, and returns go on where the policy has control again.
    following, state = batch["next_observation/state"].ravel(), states.ravel()
    last = (np.abs(state) == 30) | (state == -15)
    np.testing.assert_array_equal(following, state + np.sign(state) * np.where(last, 1, 2))
    np.testing.assert_array_equal(batch["next_observation/images/front"][:, 1, 1, 2], np.abs(following))
    expected_reward = state + np.where(last, 0, 0.9 * (state + np.sign(state)))
    np.testing.assert_allclose(batch["reward"], expected_reward, rtol=1e-5)


def test_who_wants_demonstrations_alone_gets_interventions_alone():
    states = sampler_of(TAKEN_OVER, None, 1.0).sample(400, 100)["observation/state"]
    assert set(states.ravel().tolist()) == {5, 20, 21, 22}


@pytest.mark.parametrize("online", [ONLINE, TAKEN_OVER])
def test_what_nobody_looks_at_is_not_gathered_and_the_rest_is_the_same(online):
    wanted = "observation/state", "next_observation/state"
    images = "observation/images/front", "next_observation/images/front"
    every = copied(sampler_of(online, DEMONSTRATIONS).sample(24, 8))
    partial = sampler_of(online, DEMONSTRATIONS, keys=("state",)).sample(24, 8)
    assert every.keys() - partial.keys() == set(images) and set(wanted) <= partial.keys()
    for key, array in partial.items():
        np.testing.assert_array_equal(array, every[key], err_msg=key)
    batch = sampler_of(online, DEMONSTRATIONS, keys=("state",)).sample_demonstrations(5)
    assert not batch.keys() & set(images) and set(wanted) <= batch.keys()
    assert not DEMONSTRATIONS.rows.everything(REWARD, ("state",)).keys() & set(images)


def test_what_a_person_did_may_be_online_data_alone():
    batch = sampler_of(TAKEN_OVER, DEMONSTRATIONS, interventions_are_demonstrations=False).sample(4000, 10)
    assert ((batch["observation/state"].ravel() < 0) == (batch["demonstration"] == 1)).all()


def test_demonstrations_alone_while_there_is_no_online_data():
    online = ReplayRing(10, SPEC)
    sampler = sampler_of(online, DEMONSTRATIONS)
    assert (sampler.sample(40, 8)["observation/state"] < 0).all()
    online.append([])
    assert (sampler.sample(40, 8)["observation/state"] < 0).all()


@pytest.mark.parametrize("demonstrations", [None, ReplayRing(10, SPEC)])
def test_online_data_alone_without_demonstrations(demonstrations):
    assert (sampler_of(ONLINE, demonstrations).sample(40, 8)["observation/state"] > 0).all()


@pytest.mark.parametrize("demonstrations", [None, ReplayRing(10, SPEC)])
def test_nothing_at_all_is_an_error(demonstrations):
    with pytest.raises(DataError, match="the online replay is empty and there are no demonstrations"):
        sampler_of(ReplayRing(10, SPEC), demonstrations).sample(8, 8)


def copied(batch):
    return {key: value.copy() for key, value in batch.items()}


def test_same_seed_same_rows_and_state_goes_on():
    first, second, other = (sampler_of(ONLINE, DEMONSTRATIONS, seed=seed) for seed in (0, 0, 1))
    batches = [copied(first.sample(24, 8)) for _ in range(3)]
    saved = first.state()
    assert {key: value.dtype for key, value in saved.items()} == {"generator": np.uint64}
    after = copied(first.sample(24, 8))
    for batch in batches:
        again = second.sample(24, 8)
        assert all(np.array_equal(batch[key], again[key]) for key in batch)
    assert not np.array_equal(batches[0]["reward"], other.sample(24, 8)["reward"])
    other.load(saved)
    resumed = other.sample(24, 8)
    assert all(np.array_equal(after[key], resumed[key]) for key in after)


def test_state_carries_the_spare_half_of_a_drawn_number():
    rng = generator(0, "sampler")
    rng.integers(0, 10, dtype=np.uint32)  # uses 32 of 64 bits
    sampler = MixedSampler(ONLINE, None, 0.5, 0.9, 1, REWARD, rng)
    assert sampler.state()["generator"][4] == 1
    twin = sampler_of(ONLINE, None)
    twin.load(sampler.state())
    np.testing.assert_array_equal(sampler.sample(9, 9)["reward"], twin.sample(9, 9)["reward"])


@pytest.mark.parametrize("state", [{}, {"generator": np.zeros(5, np.uint64)}, {"generator": np.zeros(6)}])
def test_state_of_something_else_is_refused(state):
    with pytest.raises(CheckpointError, match="6 uint64"):
        sampler_of(ONLINE, None).load(state)


@pytest.mark.parametrize(("rows", "block"), [(10, 4), (0, 4), (4, 0)])
def test_rows_must_be_whole_minibatches(rows, block):
    with pytest.raises(ValueError, match="positive multiple"):
        sampler_of(ONLINE, None).sample(rows, block)


def test_values_out_of_range_are_named():
    rng = generator(0, "sampler")
    for arguments, message in (
        ((1.5, 0.9, 1, REWARD, rng), "demonstration_ratio must be in [0, 1], got 1.5"),
        ((0.5, -0.1, 1, REWARD, rng), "gamma must be in [0, 1], got -0.1"),
        ((0.5, 0.9, 0, REWARD, rng), "n_step must be 1 or more, got 0"),
        ((0.5, 0.9, 1, REWARD, np.random.Generator(np.random.MT19937(0))), "must be a PCG64, got MT19937"),
    ):
        with pytest.raises(ConfigError) as caught:
            MixedSampler(ONLINE, None, *arguments)
        assert message in str(caught.value)


def test_reward_must_be_known_to_both_rings():
    without = ReplayRing(10, dataclasses.replace(SPEC, reward_terms=("distance",)))
    with pytest.raises(ConfigError, match="success"):
        sampler_of(ONLINE, without)


def test_demonstrations_are_drawn_alone():
    batch = sampler_of(ONLINE, DEMONSTRATIONS, 0.25, n_step=2).sample_demonstrations(500)
    places = -batch["observation/state"][:, 0].astype(int)
    assert set(places) == set(range(1, 16)) and (batch["demonstration"] == 1).all()
    for place, reward in zip(places, batch["reward"], strict=True):
        assert reward == pytest.approx(-place - (0.9 * (place + 1) if place < 15 else 0), rel=1e-5)
    for none in (None, ReplayRing(10, SPEC)):
        with pytest.raises(DataError, match="there are no demonstrations"):
            sampler_of(ONLINE, none).sample_demonstrations(5)


def demonstrated(outcomes: list[bool | None], length: int = 5) -> ReplayRing:
    """A ring of episodes that end so; the state is the number of the episode, below 0."""
    ring = ReplayRing(200, SPEC)
    for number, outcome in enumerate(outcomes):
        observation = {"state": np.array([-1.0 - number], np.float32), "images/front": np.zeros((2, 2, 3), np.uint8)}
        ring.append(
            [
                Transition(
                    observation=observation,
                    proposed_action=np.zeros(1, np.float32),
                    executed_action=np.zeros(1, np.float32),
                    rewards={"success": 0.0},
                    next_observation=observation,
                    terminated=outcome is True and step == length - 1,
                    truncated=outcome is not True and step == length - 1,
                    source=Source.HUMAN,
                    actor="a",
                    session=0,
                    episode=number,
                    sequence=step,
                    policy_version=-1,
                    stamp_ns=0,
                    success=outcome if step == length - 1 else None if outcome is None else False,
                )
                for step in range(length)
            ]
        )
    return ring


@pytest.mark.parametrize("interventions", [False, True])
def test_demonstrations_that_failed_are_drawn_but_not_to_be_imitated(interventions: bool) -> None:
    ring = demonstrated([True, False, None, True])
    teachers = {3: Source.HUMAN} if interventions else {}
    batch = sampler_of(ring_of(range(1, 40), teachers=teachers), ring).sample(400, 40)
    states, marked = batch["observation/state"][:, 0], batch["demonstration"]
    assert set(states[states < 0]) == {-1, -2, -3, -4}, "the critics learn from failures, too"
    assert (marked[states == -2] == 0).all(), "a failure"
    assert (marked[np.isin(states, (-1, -3, -4))] == 1).all(), "successes, and where nobody knows"
    if interventions:
        assert set(marked[states == 3]) == {0, 1}, "as a row of the online data, and as an intervention"
    assert (marked[(states > 0) & (states != 3)] == 0).all()


def test_a_policy_is_pretrained_on_what_did_not_fail() -> None:
    sampler = sampler_of(ReplayRing(50, SPEC), demonstrated([True, False, None, False]))
    assert set(sampler.sample_models(300)["observation/state"][:, 0]) == {-1, -3}


def test_where_every_demonstration_failed_all_are_imitated() -> None:
    sampler = sampler_of(ReplayRing(50, SPEC), demonstrated([False, False]))
    assert set(sampler.sample_models(300)["observation/state"][:, 0]) == {-1, -2}


def test_demonstrations_that_all_succeeded_are_drawn_as_ever() -> None:
    one, other = (
        sampler_of(ReplayRing(50, SPEC), demonstrated([True] * 3)),
        sampler_of(ReplayRing(50, SPEC), demonstrated([True] * 3)),
    )
    expected = one.sample(64, 64)["observation/state"].copy()
    np.testing.assert_array_equal(other.sample_models(64)["observation/state"], expected)


def test_demonstrations_that_failed_keep_that_mark() -> None:
    batch = sampler_of(ReplayRing(50, SPEC), demonstrated([True, False])).sample_demonstrations(200)
    states = batch["observation/state"][:, 0]
    np.testing.assert_array_equal(batch["demonstration"], (states == -1).astype(np.float32))
    assert set(states) == {-1, -2}

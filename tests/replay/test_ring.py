"""The replay ring: seams, segments, uniformity, memory, and what is refused."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import chisquare

from robo_rl.core import ArraySpec, ConfigError, RewardWeights, Source, SpecError
from robo_rl.replay import ReplayRing

from ..rigs.replay_stream import REWARD, SPEC, Stream, episode, fill, number_of, observe


def rows_by_number(ring: ReplayRing, n_step: int = 1):
    """All rows, as (observation, next observation, discount) by number of the observation."""
    batch = ring.rows.gather(
        np.unique(ring.rows.sample_indices(50 * len(ring), np.random.default_rng(1))),
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
    counts = np.bincount(ring.rows.sample_indices(300_000, np.random.default_rng(3)), minlength=60)
    counts = counts[counts > 0]
    assert len(counts) == len(ring) < 60
    assert chisquare(counts).pvalue > 1e-3


def test_images_are_stored_once():
    image = ArraySpec((64, 64, 3), "uint8")
    spec = dataclasses.replace(SPEC, observation={"state": ArraySpec((2,)), "images/front": image})
    ring = ReplayRing(1000, spec)
    assert 64 * 64 * 3 * 1000 < ring.memory_bytes < 64 * 64 * 3 * 1000 * 1.02
    assert ring.metrics()["memory_bytes"] == ring.memory_bytes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observation": {"state": np.zeros(2, np.float32)}}, "expected keys ['images/front', 'state'], got ['state']"),
        ({"next_observation": observe(1) | {"state": np.zeros(3, np.float32)}}, "next observation 'state': expected"),
        ({"executed_action": np.array([0, np.nan], np.float32)}, "executed action: expected finite values"),
        ({"proposed_action": np.zeros(3, np.float32)}, "proposed action: expected a float32 array of shape (2,)"),
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
    batch = ring.rows.everything(RewardWeights({"distance": 1.0}))
    assert not any("images" in key for key in batch)
    np.testing.assert_allclose(
        np.sort(batch["reward"]), np.sort([t.rewards["distance"] for t in transitions]), rtol=1e-6
    )


def test_out_arrays_are_filled_in_place_minibatch_by_minibatch():
    ring = ReplayRing(40, SPEC)
    fill(ring, [step for length in (7, 3, 11) for step in episode(length, "truncate")])
    indices = ring.rows.sample_indices(12, np.random.default_rng(0))
    plain = ring.rows.gather(indices, gamma=0.9, n_step=3, reward=REWARD)
    whole = ring.rows.empty_batch((3, 6))
    for value in whole.values():
        value[...] = 99
    part = {key: value[:, 2:] for key, value in whole.items()}
    ring.rows.gather(indices.reshape(3, 4), gamma=0.9, n_step=3, reward=REWARD, out=part)
    for key, value in whole.items():
        np.testing.assert_array_equal(value[:, 2:].reshape(plain[key].shape), plain[key])
        assert (value[:, :2] == 99).all()


def test_slots_without_a_transition_are_refused():
    ring = ReplayRing(10, SPEC)
    fill(ring, episode(3, "terminate"))
    for slots in ([3], [0, 9], [-1], [10]):
        with pytest.raises(IndexError):
            ring.rows.gather(np.array(slots), gamma=0.9, n_step=1, reward=REWARD)
        with pytest.raises(IndexError):
            ring.rows.labels(np.array(slots))


def test_unknown_reward_term_is_named_with_the_nearest():
    ring = ReplayRing(10, SPEC)
    fill(ring, episode(3, "terminate"))
    with pytest.raises(ConfigError, match=r"'succes'.*did you mean 'success'"):
        ring.rows.gather(np.array([0]), gamma=0.9, n_step=1, reward=RewardWeights({"succes": 1.0}))


def test_empty_ring_and_impossible_capacity():
    ring = ReplayRing(10, SPEC)
    with pytest.raises(ValueError, match="empty"):
        ring.rows.sample_indices(1, np.random.default_rng(0))
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


def test_failures_are_known_on_both_sides_of_the_seam() -> None:
    ring, stream = ReplayRing(10, SPEC), Stream()
    for outcome in (True, False, None):
        end = "terminate" if outcome else "truncate"
        steps = [stream.next(0, event) for event in ("step", "step", end)]
        ring.append([dataclasses.replace(step, success=outcome) for step in steps])
    # 12 observations in 10 slots: the first two transitions of the success are overwritten.
    kept = ring.rows.labels(ring.rows.available.not_failed)["success"]
    assert sorted(kept.tolist()) == [-1, -1, -1, 1]

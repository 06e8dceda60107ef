"""Saving the replay ring: it goes on bit for bit, and the state of another ring is refused."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from robo_rl.core import ArraySpec, CheckpointError, generator
from robo_rl.replay import ReplayRing

from ..rigs.replay_stream import EVENTS, REWARD, SPEC, Stream, episode, fill


@settings(max_examples=40)
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
            batches.append(ring.rows.gather(ring.rows.sample_indices(32, rng), gamma=0.9, n_step=3, reward=REWARD))
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

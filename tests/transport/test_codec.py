"""Records: what is decoded is what was encoded; what does not fit is refused, and nothing is paired across it."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robo_rl.core import PASSED, ArraySpec, ConfigError, Refusal, SpecError, Transition, Verdict
from robo_rl.transport import RecordDecoder, RecordEncoder, codec, images
from robo_rl.transport.messages_pb2 import Record
from robo_rl.transport.received import ReceivedRecord, read_record

from ..rigs.replay_episodes import SPEC, assert_same, make_episode

IMAGE = bytes(24 * 24 * 3)


def renumbered(episodes: list[list[Transition]]) -> list[Transition]:
    steps = [step for episode in episodes for step in episode]
    return [dataclasses.replace(step, sequence=number) for number, step in enumerate(steps)]


def three_episodes() -> list[Transition]:
    return renumbered([make_episode(number, 7, end=end) for number, end in enumerate(["terminated", "truncated", ""])])


def encode(steps: list[Transition]) -> list[Record]:
    encoder = RecordEncoder(SPEC)
    return [Record.FromString(encoder.encode(step)) for step in steps]


def read(records: Sequence[Record]) -> list[ReceivedRecord]:
    return [read_record(record.SerializeToString(), True) for record in records]


def decoder() -> RecordDecoder:
    return RecordDecoder(SPEC, "robot", 3)


def test_round_trip_in_any_batches() -> None:
    steps = three_episodes()
    records = encode(steps)
    assert [bool(record.observation) for record in records] == [number % 7 == 0 for number in range(21)]
    for size in (1, 4, 21):
        reader = decoder()
        items = [item for first in range(0, 21, size) for item in reader.decode(read(records[first : first + size]))]
        assert_same(items, steps)
        for before, after in itertools.pairwise(items):
            if after.sequence % 7:
                assert after.observation is before.next_observation


def test_what_safety_did_travels() -> None:
    steps = three_episodes()
    verdicts = {
        2: Verdict(changed=True, reasons=("speed", "barrier")),
        6: Verdict(True, True, ("contact_stop",), "60 N"),
    }
    steps = [dataclasses.replace(step, verdict=verdicts.get(step.sequence, PASSED)) for step in steps]
    assert [item.verdict for item in decoder().decode(read(encode(steps)))] == [step.verdict for step in steps]
    long = dataclasses.replace(steps[0], verdict=Verdict(True, False, ("x" * 9999,) * 99, "y" * 9999))
    (item,) = decoder().decode(read(encode([long])))
    assert isinstance(item, Transition)
    assert item.verdict == Verdict(True, False, ("x" * 64,) * 16, "y" * 500)


def test_a_jump_in_the_observations_begins_a_segment() -> None:
    steps = three_episodes()
    steps[3] = dataclasses.replace(steps[3], observation={**steps[3].observation, "state": np.ones(3, np.float32)})
    records = encode(steps)
    assert records[3].observation
    assert_same(decoder().decode(read(records)), steps)


def test_a_long_episode_has_records_that_can_be_read_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "SEGMENT_BYTES", 3 * codec.RecordLayout(SPEC).step_bytes)
    records = encode(make_episode(0, 10))
    assert [bool(record.observation) for record in records] == [number % 3 == 0 for number in range(10)]


def test_a_step_that_is_not_finite_is_refused_by_the_encoder_and_counted() -> None:
    steps = three_episodes()
    encoder = RecordEncoder(SPEC)
    bad = dataclasses.replace(steps[2], rewards={"success": np.nan, "distance": 0.0})
    encoded = [encoder.encode(steps[0]), encoder.encode(steps[1])]
    with pytest.raises(SpecError, match="rewards: expected finite terms"):
        encoder.encode(bad)
    encoded += [encoder.refuse(bad, "rewards: not finite"), encoder.encode(steps[3])]
    items = decoder().decode([read_record(record, True) for record in encoded])
    assert items[2] == Refusal(2, 1, "refused by the actor: rewards: not finite")
    assert_same([items[0], items[1], items[3]], [steps[0], steps[1], steps[3]])


def spoil(record: Record, field: str, value: object) -> Record:
    row = np.frombuffer(record.step, codec.RecordLayout(SPEC).step).copy()
    row[field] = value
    spoilt = Record.FromString(record.SerializeToString())
    spoilt.step = row.tobytes()
    return spoilt


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("next/state", np.inf, r"next observation 'state': expected finite values, got inf at index \[0\] \(x\)"),
        ("executed_action", 1.5, r"executed action: expected values in \[-1, 1\], got 1.5"),
        ("proposed_action", np.nan, "proposed action: expected finite values"),
        ("rewards", np.nan, "rewards: expected finite values"),
        ("rewards", 1e39, r"rewards: expected values in \[-3.4\d+e\+38, 3.4\d+e\+38\], got 1e\+39"),
        ("terminated", 7, "terminated: expected 0 to 1, got 7"),
        ("source", 9, "source: expected 0 to 3, got 9"),
        ("success", 2, "success: expected -1 to 1, got 2"),
    ],
)
def test_a_record_that_does_not_fit_is_refused_with_what_hangs_on_it(field: str, value: object, message: str) -> None:
    steps = three_episodes()
    records = encode(steps)
    records[2] = spoil(records[2], field, value)
    items = decoder().decode(read(records))
    assert isinstance(items[2], Refusal)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(items[2].reason)
    for item in items[3:7]:
        assert isinstance(item, Refusal) and "needs the observation of a step that was refused" in item.reason
    assert [item.sequence for item in items] == list(range(21))
    assert_same(items[:2] + items[7:], steps[:2] + steps[7:])


def test_wrong_lengths_and_episodes_are_refused() -> None:
    records = encode(make_episode(0, 4))
    for number, record in enumerate(records):
        record.sequence = number
    records[1].step += b"\0"
    records[3] = Record(sequence=3, episode=0, observation=b"abc", step=records[3].step, images=records[3].images)
    reasons = [item.reason for item in decoder().decode(read(records))[1:]]
    size = codec.RecordLayout(SPEC).step.itemsize
    assert reasons[0] == f"step: expected {size} bytes, got {size + 1}"
    assert "never arrived" in reasons[1]
    assert "observation: expected" in reasons[2] and "got 3" in reasons[2]
    other_episode = encode(make_episode(0, 2))
    other_episode[1].episode = 5
    assert isinstance(decoder().decode(read(other_episode))[1], Refusal)


def test_a_record_is_paired_with_the_observation_before_it_alone() -> None:
    steps = three_episodes()
    records = encode(steps)
    reader = decoder()
    assert_same(reader.decode(read(records[:3])), steps[:3])
    jumped = reader.decode(read(records[4:6]))
    assert all(isinstance(item, Refusal) and "never arrived" in item.reason for item in jumped)
    reader = decoder()
    assert_same(reader.decode(read(records[:5])), steps[:5])
    repeated = reader.decode(read(records[3:5]))
    assert all(isinstance(item, Refusal) for item in repeated)


@settings(max_examples=200)
@given(
    st.lists(
        st.builds(
            Record,
            sequence=st.integers(0, 2**64 - 1),
            episode=st.integers(0, 2**64 - 1),
            observation=st.binary(max_size=40) | st.just(bytes(codec.RecordLayout(SPEC).observation.itemsize)),
            step=st.binary(max_size=40)
            | st.binary(min_size=8, max_size=8)
            .map(lambda data: data * 300)
            .map(lambda data: data[: codec.RecordLayout(SPEC).step.itemsize]),
            refusal=st.text(max_size=5),
            images=st.lists(st.binary(max_size=40) | st.just(IMAGE), max_size=2),
            first_images=st.lists(st.binary(max_size=40) | st.just(IMAGE), max_size=2),
            image_coding=st.integers(0, 3),
        ),
        max_size=5,
    )
)
def test_any_record_gives_a_transition_that_fits_or_a_refusal(records: list[Record]) -> None:
    for record, item in zip(records, decoder().decode(read(records)), strict=True):
        assert item.sequence == record.sequence
        if isinstance(item, Transition):
            SPEC.check_observation(item.observation)
            SPEC.check_observation(item.next_observation)
            SPEC.action.check("action", item.executed_action)


# --- images ---------------------------------------------------------------------------------------------------------

STACKED = dataclasses.replace(
    SPEC,
    observation={
        "images/depth": ArraySpec((16, 24, 1), "uint8"),
        "images/front": ArraySpec((16, 24, 3), "uint8"),
        "images/wrist": ArraySpec((16, 24, 6), "uint8"),
    },
)


def smooth_episode(steps: int) -> list[Transition]:
    """As a camera sees it: neighbouring pixels are alike."""
    episode = make_episode(0, steps, STACKED)
    ramp = np.add.outer(np.linspace(0, 180, 16), np.linspace(0, 60, 24))[..., None]
    for number, step in enumerate(episode):
        for observation in (step.observation, step.next_observation):
            for key, array in STACKED.observation.items():
                channels = np.linspace(1.0, 0.5, array.shape[2])
                observation[key][...] = (ramp * channels + number).astype(np.uint8)
    return renumbered([episode])


def through_the_wire(steps: list[Transition], compression: str | None) -> tuple[list[Transition], int]:
    encoder = RecordEncoder(STACKED, compression)
    data = [encoder.encode(step) for step in steps]
    items = RecordDecoder(STACKED, "robot", 3).decode([read_record(record, True) for record in data])
    return items, sum(map(len, data))


def test_images_alone_make_an_observation_and_zstd_changes_no_pixel() -> None:
    steps = smooth_episode(5)
    raw, raw_bytes = through_the_wire(steps, None)
    compressed, compressed_bytes = through_the_wire(steps, "zstd")
    assert_same(raw, steps)
    assert_same(compressed, steps)
    assert compressed_bytes < raw_bytes


def test_jpeg_keeps_colours_channels_and_frames_nearly() -> None:
    steps = smooth_episode(5)
    items, size = through_the_wire(steps, "jpeg")
    assert size < 0.5 * through_the_wire(steps, None)[1]
    for item, step in zip(items, steps, strict=True):
        for key, value in item.next_observation.items():
            assert value.shape == step.next_observation[key].shape and value.dtype == np.uint8
            difference = value.astype(int) - step.next_observation[key]
            assert np.abs(difference).mean() < 3, key
    for before, after in itertools.pairwise(items):
        assert after.observation is before.next_observation


def test_jpeg_refuses_images_that_it_cannot_write() -> None:
    two = dataclasses.replace(SPEC, observation={"images/flow": ArraySpec((16, 24, 2), "uint8")})
    with pytest.raises(ConfigError, match="1 channel or 3 per frame, 'images/flow' has 2; choose zstd"):
        RecordEncoder(two, "jpeg")
    RecordEncoder(two, "zstd")


@pytest.mark.parametrize("compression", ["zstd", "jpeg"])
@pytest.mark.parametrize("shape", [(16, 25, 3), (4000, 4000, 3), (1, 1, 3)])
def test_a_compressed_image_of_another_size_is_refused_before_it_is_decoded(
    compression: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    coding = images.CODINGS[compression]
    array = SPEC.observation["images/front"]
    other = images.encode_image(np.zeros(shape, np.uint8), coding)
    monkeypatch.setattr(images.cv2, "imdecode", None)
    monkeypatch.setattr(images, "_ZSTD", None)
    with pytest.raises(SpecError, match=r"got something else|found a JPEG of"):
        images.decode_image(other, array, coding)


@pytest.mark.parametrize("compression", ["zstd", "jpeg"])
def test_damaged_images_are_refused_or_decoded_to_the_shape(compression: str) -> None:
    coding = images.CODINGS[compression]
    array = SPEC.observation["images/front"]
    rng = np.random.default_rng(0)
    whole = images.encode_image(rng.integers(0, 255, array.shape, np.uint8), coding)
    refused = 0
    for _ in range(500):
        damaged = bytearray(whole[: rng.integers(0, len(whole) + 1)])
        for position in rng.integers(0, len(damaged), 3) if damaged else ():
            damaged[position] = rng.integers(0, 256)
        try:
            assert images.decode_image(bytes(damaged), array, coding).shape == array.shape
        except SpecError:
            refused += 1
    assert refused > 50

"""RLDS data sets as others write them: layouts of images, missing values, times and flags of steps."""

import json

import cv2
import numpy as np
import pytest

from robo_rl.core import ConfigError, DataError
from robo_rl.replay.interchange import ForeignConfig, Rlds
from robo_rl.replay.interchange.rlds_layout import Feature, features_json
from robo_rl.replay.interchange.tfrecord import append_record, decode_example, encode_example

STEPS = 8
RANDOM = np.random.default_rng(0)
COLOURS = RANDOM.integers(0, 256, (STEPS, 12, 20, 3), np.uint8)
STATE = Feature("tensor", (2,), "float32")


def write(path, steps=STEPS, **columns):
    """Write an episode; ``columns`` are a feature and its values each, or None for what is left out."""
    given = {
        "observation__state": (STATE, RANDOM.uniform(-1, 1, (steps, 2))),
        "action": (Feature("tensor", (1,), "float32"), np.linspace(-1, 1, steps)[:, None]),
        **columns,
    }
    named = {f"steps/{name.replace('__', '/')}": each for name, each in given.items()}
    path.mkdir()
    (path / "features.json").write_text(features_json({name: feature for name, (feature, _) in named.items()}))
    example = {name: values if isinstance(values, list) else np.asarray(values) for name, (_, values) in named.items()}
    with (path / "x-train.tfrecord-00000-of-00001").open("wb") as stream:
        append_record(stream, encode_example(example))
    return path


def load(path, options=None, **foreign):
    data = Rlds(**(options or {})).load(path, ForeignConfig(control_rate=10.0, **foreign))
    return data, list(data.episodes())


def png(image):
    return cv2.imencode(".png", image)[1].tobytes()


def test_tensors_of_images_are_recognised_converted_or_refused(tmp_path):
    first = COLOURS.transpose(0, 3, 1, 2)
    path = write(tmp_path / "first", observation__front=(Feature("tensor", (3, 12, 20), "uint8"), first.astype(int)))
    data, (episode,) = load(path)
    np.testing.assert_array_equal(episode.observation["images/front"], COLOURS)
    assert "Images converted: 1 (images/front: axes chw become hwc)" in data.notes.lines()
    floats = (COLOURS / 255).astype(np.float32)
    path = write(tmp_path / "float", observation__front_image=(Feature("tensor", (12, 20, 3), "float32"), floats))
    with pytest.raises(
        DataError, match=r"'steps/observation/front_image' of the first step: front: float32 images.*leave_out"
    ):
        load(path)
    _, (episode,) = load(path, images={"front": {"low": 0, "high": 1}})
    np.testing.assert_array_equal(episode.observation["images/front"], COLOURS)


def test_grey_depth_and_alpha(tmp_path):
    grey = [png(image[..., 0]) for image in COLOURS]
    path = write(tmp_path / "grey", observation__front=(Feature("image", (12, 20, 1), "uint8"), grey))
    _, (episode,) = load(path)
    np.testing.assert_array_equal(episode.observation["images/front"], COLOURS[..., :1])
    depth = [png(np.full((12, 20), 1000 + n, np.uint16)) for n in range(STEPS)]
    path = write(tmp_path / "depth", observation__depth=(Feature("image", (12, 20, 1), "uint16"), depth))
    data, (episode,) = load(path)
    assert set(episode.observation) == {"state"}
    assert data.notes.lines()[0].startswith("Observations left out: 1 (images/depth: 16-bit depth")
    _, (episode,) = load(path, images={"depth": {"low": 1000, "high": 1255}})
    assert episode.observation["images/depth"][:, 0, 0, 0].tolist() == list(range(STEPS))
    alpha = [png(np.concatenate([image, image[..., :1]], axis=2)) for image in COLOURS[..., ::-1]]
    path = write(tmp_path / "alpha", observation__front=(Feature("image", (12, 20, 4), "uint8"), alpha))
    with pytest.raises(
        DataError, match=r"RGBA images of shape \(12, 20, 4\).*foreign\.images=\{front:\{channels:3\}\}'"
    ):
        load(path)
    _, (episode,) = load(path, images={"front": {"channels": 3}})
    np.testing.assert_array_equal(episode.observation["images/front"], COLOURS)


def test_sizes_that_differ_are_named(tmp_path):
    sound = [png(image) for image in COLOURS]
    turned = [png(image.transpose(1, 0, 2)) for image in COLOURS]
    path = write(tmp_path / "declared", observation__front=(Feature("image", (12, 20, 3), "uint8"), turned))
    with pytest.raises(DataError, match=r"image of step 0: declared as \(12, 20, 3\), stored as a PNG of 20 x 12"):
        load(path)
    mixed = (Feature("image", (None, None, 3), "uint8"), [*sound[:5], *turned[5:]])
    path = write(tmp_path / "mixed", observation__front=mixed)
    with pytest.raises(DataError, match=r"'steps/observation/front': image of step 5: expected an image of 12 x 20"):
        load(path)
    path = write(tmp_path / "few", observation__front=(Feature("image", (12, 20, 3), "uint8"), sound[:-1]))
    with pytest.raises(DataError, match="episode 0: 'steps/observation/front' has 7 rows, but there are 8 steps"):
        load(path)
    path = write(tmp_path / "state", observation__state=(STATE, np.zeros(15)))
    with pytest.raises(
        DataError,
        match=r"expected tensor values of shape \(2,\) \(found 15 values, which is not a multiple",
    ):
        load(path)


def test_values_that_are_missing_are_named_or_cut_out(tmp_path):
    states = RANDOM.uniform(-1, 1, (STEPS, 2))
    states[3, 1] = np.nan
    path = write(tmp_path / "nan", observation__state=(STATE, states))
    with pytest.raises(DataError, match=r"episode 0: 'steps/observation/state' of frame 3 has nan in element 1"):
        load(path)
    _, episodes = load(path, faults="cut")
    assert [episode.record.steps for episode in episodes] == [2, 3]
    data, episodes = load(path, faults="drop")
    assert not episodes and data.notes.lines()[-1].startswith("Episodes with values that are missing")


def test_times_of_steps_are_checked_where_they_are_named(tmp_path):
    times = np.arange(STEPS) / 10 + 5
    times[4:] += 3
    path = write(
        tmp_path / "gap", observation__time=(Feature("tensor", (), "float64", True), [t.tobytes() for t in times])
    )
    data, (episode,) = load(path)
    assert episode.record.steps == 7 and any("The data has no times" in line for line in data.notes.lines())
    data, episodes = load(path, {"time": "observation/time"})
    assert [episode.record.steps for episode in episodes] == [3, 3]
    assert [int(episode.stamp_ns[0]) for episode in episodes] == [5_000_000_000, 8_400_000_000]
    assert data.notes.lines() == ["Jumps in recorded time, each of which ends an episode: 1 (episode 0 frame 3: 3.1 s)"]
    with pytest.raises(DataError, match=r"the control rate is 20 Hz, but the recorded times give 10 Hz"):
        list(Rlds(time="observation/time").load(path, ForeignConfig(control_rate=20.0)).episodes())
    with pytest.raises(ConfigError, match=r"format\.time names 'stamp', which no step has"):
        load(path, {"time": "stamp"})


@pytest.mark.parametrize(("flag", "place"), [("is_first", 4), ("is_last", 4), ("is_terminal", 2)])
def test_flags_within_an_episode_are_refused(tmp_path, flag, place):
    flags = (np.arange(STEPS) == place).astype(int)
    path = write(tmp_path / "set", **{flag: (Feature("tensor", (), "bool"), flags)})
    with pytest.raises(DataError, match=rf"episode 0: {flag} is set in step {place} of 8, expected only in step [07]"):
        load(path)


def test_files_without_an_episode_are_said(tmp_path):
    """A copy that was interrupted may leave all file names, but some files empty."""
    path = write(tmp_path / "set")
    (path / "x-train.tfrecord-00000-of-00001").rename(path / "x-train.tfrecord-00001-of-00003")
    for number in (0, 2):
        (path / f"x-train.tfrecord-{number:05d}-of-00003").touch()
    data, episodes = load(path)
    files = ", ".join(f"x-train.tfrecord-{number:05d}-of-00003" for number in (0, 2))
    assert len(episodes) == 1 and f"Files without an episode: 2 ({files})" in data.notes.lines()


def test_numbers_of_episodes_are_compared(tmp_path):
    path = write(tmp_path / "set")
    (path / "dataset_info.json").write_text(json.dumps({"splits": [{"name": "train", "shardLengths": ["2"]}]}))
    with pytest.raises(DataError, match=r"expected 2 episodes, as dataset_info\.json states, found 1"):
        load(path)


def test_examples_are_read_as_protobuf_reads_them():
    numbers = [0, 1, 127, 128, 300, 2**31, 2**62, -1, -(2**63)]
    columns = {
        "text": [b"", b"abc"],
        "float": np.float32([0.5, -2]),
        "int": np.array(numbers),
        "none": np.zeros(0, int),
    }
    found = decode_example(encode_example(columns), "here")
    assert found["text"] == [b"", b"abc"] and found["int"].tolist() == numbers and not len(found["none"])
    np.testing.assert_array_equal(found["float"], columns["float"])
    assert set(decode_example(encode_example(columns), "here", {"int"})) == {"int"}
    whole = encode_example(columns)
    for cut in range(1, len(whole)):
        try:
            decode_example(whole[:cut], "here")
        except DataError as error:
            assert "here: a record is not a tf.train.Example" in str(error)


@pytest.mark.parametrize("flag", ["is_first", "is_last", "is_terminal"])
@pytest.mark.parametrize("value", [0.5, 2.0, float("nan")])
def test_flags_other_than_0_and_1_are_refused(tmp_path, flag, value):
    rows = np.where(np.arange(STEPS) == (0 if flag == "is_first" else STEPS - 1), value, 0)
    path = write(tmp_path / "set", **{flag: (Feature("tensor", (), "float32"), rows)})
    with pytest.raises(DataError, match=f"one flag per step in {flag}, 0 or 1, found"):
        load(path)

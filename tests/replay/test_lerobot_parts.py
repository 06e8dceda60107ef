"""LeRobot data sets of which a part is missing, superfluous or in another place: read whole, or refused by name."""

import json
import shutil
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest

from robo_rl.core import DataError
from robo_rl.replay.interchange import ForeignConfig, LeRobot

CASES = Path(__file__).parents[1] / "data/cases/lerobot"
TABLE, EPISODES = "data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet"
CAMERA = "observation.images.front"
SIZE = (24, 32)
LENGTHS = (12, 9)


def steps(path):
    return [episode.record.steps for episode in LeRobot().load(path, ForeignConfig()).episodes()]


def change(path, name, edit):
    parquet.write_table(edit(parquet.read_table(path / name)), path / name)


@pytest.fixture
def copy(tmp_path):
    return lambda name="listed_success": Path(shutil.copytree(CASES / name, tmp_path / name))


@pytest.mark.parametrize("order", ["reversed", "swapped", "random"])
def test_rows_in_another_order_than_that_of_frames_are_refused(copy, order):
    rows = {"reversed": [*range(20, -1, -1)], "swapped": [0, 1, 3, 2, *range(4, 21)]}
    rows["random"] = np.random.default_rng(0).permutation(21).tolist()
    change(path := copy(), TABLE, lambda table: table.take(pyarrow.array(rows[order])))
    with pytest.raises(
        DataError, match=r"episode 0: its rows are not in the order of 'frame_index': .* sort the table"
    ):
        steps(path)


def test_tables_that_no_episode_is_in_are_refused(copy):
    path = copy()
    shutil.copy(path / TABLE, path / "data/chunk-000/file-001.parquet")
    with pytest.raises(DataError, match=r"file-001\.parquet is in the data set, but no episode .* is in it"):
        steps(path)
    path = copy("images_by_path")
    shutil.copy(path / "data/chunk-000/episode_000001.parquet", path / "data/chunk-000/episode_000002.parquet")
    with pytest.raises(DataError, match=r"episode_000002\.parquet is in the data set, but no episode"):
        steps(path)


def test_rows_of_episodes_that_are_not_listed_are_refused(copy):
    """As after a recorder was killed before it had written its metadata; another table is as long as all rows."""
    path = copy()
    shutil.copy(path / TABLE, path / "data/chunk-000/file-001.parquet")
    places = pyarrow.array([0, 1])
    change(path, EPISODES, lambda table: table.drop(["data/file_index"]).append_column("data/file_index", places))
    with pytest.raises(
        DataError, match=r"file-000\.parquet has 21 rows, expected at most 12 .* metadata is incomplete"
    ):
        steps(path)


@pytest.mark.parametrize("key", ["features", "fps", "total_frames", "total_episodes"])
@pytest.mark.parametrize("value", ["absent", None])
def test_what_info_has_to_state_is_named(copy, key, value):
    path = copy()
    info = json.loads((path / "meta/info.json").read_text())
    del info[key]
    (path / "meta/info.json").write_text(json.dumps(info if value else {**info, key: None}))
    with pytest.raises(DataError, match=rf"info\.json lacks {key}, which every LeRobotDataset states"):
        steps(path)


@pytest.mark.parametrize("fps", ["10", [10], {}, 0, -5, float("nan"), float("inf")])
def test_a_rate_that_is_no_number_above_0_is_refused(copy, fps):
    path = copy()
    info = json.loads((path / "meta/info.json").read_text())
    (path / "meta/info.json").write_text(json.dumps({**info, "fps": fps}))
    with pytest.raises(DataError, match=r"info\.json: fps must be a number above 0, at most 10000, found"):
        steps(path)


@pytest.mark.parametrize("order", ["swapped", "interleaved", "one apart"])
def test_episodes_whose_rows_are_not_together_are_read_or_refused_by_their_order(copy, order):
    """Numbers are selected by episode; images are read once, in the order of the table."""
    rows = {"swapped": [*range(12, 21), *range(12)], "one apart": [*range(11), *range(12, 21), 11]}
    rows["interleaved"] = sorted(range(21), key=lambda row: row % 12)
    numbers, images = copy(), copy("image_other_size")
    expected = steps(numbers)
    for path in (numbers, images):
        change(path, TABLE, lambda table: table.take(pyarrow.array(rows[order])))
    assert steps(numbers) == expected
    with pytest.raises(DataError, match=r"the 12 rows of episode 0 do not follow one another, .* sort the table"):
        list(LeRobot().load(images, ForeignConfig(images={"front": {"axes": "whc"}})).episodes())


@pytest.mark.parametrize("names", [("environment_state", "object"), ("images.top", "images/top")])
def test_two_features_of_one_name_are_refused(copy, names):
    path = copy()
    info = json.loads((path / "meta/info.json").read_text())
    for name in names:
        info["features"][f"observation.{name}"] = {"dtype": "float32", "shape": [1], "names": None}
    (path / "meta/info.json").write_text(json.dumps(info))
    with pytest.raises(DataError, match=rf"'observation.{names[0]}' and '.*' would both be named '.*'; rename one"):
        steps(path)


@pytest.mark.parametrize(
    ("start", "kind", "accepted"),
    [(86400, "float32", True), (86400 * 30, "float32", False), (1.7e9, "float32", False), (1.7e9, "float64", True)],
)
def test_times_too_coarse_for_the_rate_are_named(copy, start, kind, accepted):
    path = copy()
    times = pyarrow.array([start + (n if n < 12 else n - 12) / 10 for n in range(21)], kind)
    change(path, TABLE, lambda table: table.drop(["timestamp"]).append_column("timestamp", times))
    if accepted:
        assert steps(path) == [11, 8]
        return
    with pytest.raises(DataError, match=r"episode 0: 'timestamp' reaches .* float32 has steps of .* too coarse"):
        steps(path)


# --- videos ----------------------------------------------------------------------------------------------------------


def write_video(path, count, codec="libx264", form="yuv420p", missing=(), turn=0, full=False):
    """Write a video of 10 Hz, each image brighter than the one before."""
    path.parent.mkdir(parents=True)
    options = {"x265-params": "log-level=none"} if codec == "libx265" else {}
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=Fraction(10), options=options)
        stream.height, stream.width, stream.pix_fmt, stream.thread_count = *SIZE, form, 1
        if turn:
            stream.set_display_rotation(turn)
        for number in range(count):
            frame = av.VideoFrame.from_ndarray(np.full((*SIZE, 3), 10 * number, np.uint8), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 10)
            stored = frame.reformat(format=form, dst_color_range=2 if full else None)
            stored.color_range = 0 if full else stored.color_range
            packets = stream.encode(stored) if number not in missing else []
            for packet in packets:
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)


def filmed(path, count=21, begins=(0.0, 1.2), ends=(1.2, 2.1), **video):
    """Give a data set a camera with one video of both episodes."""
    info = json.loads((path / "meta/info.json").read_text())
    info["features"][CAMERA] = {"dtype": "video", "shape": [*SIZE, 3], "names": ["height", "width", "channels"]}
    (path / "meta/info.json").write_text(json.dumps(info))
    columns = {"chunk_index": [0, 0], "file_index": [0, 0], "from_timestamp": begins, "to_timestamp": ends}

    def add(table):
        for name, values in columns.items():
            if values is not None:
                table = table.append_column(f"videos/{CAMERA}/{name}", pyarrow.array(list(values)))
        return table

    change(path, EPISODES, add)
    write_video(path / f"videos/{CAMERA}/chunk-000/file-000.mp4", count, **video)
    return path


@pytest.mark.parametrize("fields", [{}, {"ends": None}, {"begins": (0.9, 0.0), "ends": (2.1, 0.9)}])
def test_each_episode_gets_its_own_images(copy, fields):
    data = LeRobot().load(filmed(copy(), **fields), ForeignConfig())
    firsts = [round(10 * begin) for begin in fields.get("begins", (0.0, 1.2))]
    for episode, first, length in zip(data.episodes(), firsts, LENGTHS, strict=True):
        brightness = episode.observation["images/front"].mean((1, 2, 3))
        np.testing.assert_allclose(brightness, 10 * np.arange(first, first + length), atol=3)


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_a_rotation_that_a_video_states_is_ignored_and_said(copy, turn):
    data = LeRobot().load(filmed(copy(), turn=turn), ForeignConfig())
    assert {episode.observation["images/front"].shape[1:] for episode in data.episodes()} == {(*SIZE, 3)}
    line = f"Videos that state a rotation of {turn} degrees, which is ignored: 1 (images/front)"
    assert (line in data.notes.lines()) == (turn != 0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"count": 20}, r"file-000\.mp4: expected at least 21 images, found 20"),
        ({"count": 22}, r"file-000\.mp4: more images than the 21 rows of the episodes in it"),
        ({"count": 22, "missing": (4,)}, r"image 4 is shown at 0\.5 s, but at 10 Hz it should be at 0\.4 s"),
        ({"ends": None, "begins": (0.0, 1.1)}, r"of episodes 0 and 1 are the same images of .*file-000\.mp4, 11 to 11"),
        ({"ends": None, "begins": (0.5, 0.0)}, r"of episodes 1 and 0 are the same images"),
        ({"begins": (0.0, 1.1), "ends": (1.1, 2.0)}, r"of episode 0 .* 11 images at 10 Hz, but the episode has 12"),
        (
            {"ends": (1.2, 2.6)},
            r"of episode 1 .* from 1\.2 to 2\.6 s, 14 images at 10 Hz, but the episode has 9 frames",
        ),
        ({"ends": (1.2, float("nan"))}, r"of episode 1 .* nan images"),
        ({"begins": (0.0, float("nan"))}, r"of episode 1 .* begins at nan s"),
        ({"begins": (-0.1, 1.2)}, r"of episode 0 .* begins at -0\.1 s"),
        ({"begins": (None, 1.2)}, r"of episode 0 .* begins at None s"),
        ({"codec": "libx265", "form": "gray12le"}, r"a grey video of 12 bits, such as depth, .* foreign\.leave_out"),
        ({"codec": "libx265", "form": "gray10le"}, r"a grey video of 10 bits"),
    ],
)
def test_videos_that_are_not_as_the_episodes_are_refused(copy, fields, message):
    with pytest.raises(DataError, match=message):
        steps(filmed(copy(), **fields))


@pytest.mark.parametrize("stated", [True, False])
def test_a_video_of_the_full_range_that_does_not_state_it_is_said(copy, stated):
    path = filmed(copy(), form="yuvj420p" if stated else "yuv420p", full=not stated)
    data = LeRobot().load(path, ForeignConfig())
    assert len(list(data.episodes())) == 2
    assert any("do not state the full range" in line for line in data.notes.lines()) != stated

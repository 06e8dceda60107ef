"""LeRobot data sets as people report them: read whole, or refused by feature, file, episode and frame."""

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest

from robo_rl.cli import main
from robo_rl.core import ConfigError, DataError
from robo_rl.replay import EpisodeStore
from robo_rl.replay.interchange import ForeignConfig, LeRobot
from robo_rl.replay.interchange.foreign_episodes import LAST_LEFT_OUT

from ..rigs.command_line import exit_code

CASES = Path(__file__).parents[1] / "data/cases/lerobot"
TABLE = "data/chunk-000/file-000.parquet"


def load(path, **options):
    """Read a data set; return it and its episodes."""
    data = LeRobot().load(path, ForeignConfig(**options))
    return data, list(data.episodes())


def column(path, name):
    return parquet.read_table(path / TABLE)[name].to_pylist()


@pytest.fixture
def copy(tmp_path):
    """Copy a case, to change it."""

    def make(name, **columns):
        shutil.copytree(CASES / name, tmp_path / name)
        table = parquet.read_table(tmp_path / name / TABLE)
        for feature, change in columns.items():
            feature = feature.replace("__", ".")
            index = table.schema.get_field_index(feature)
            table = table.set_column(index, feature, pyarrow.array(change(table[feature].to_pylist())))
        parquet.write_table(table, tmp_path / name / TABLE)
        return tmp_path / name

    return make


# --- time ------------------------------------------------------------------------------------------------------------


def test_an_episode_ends_at_a_gap(tmp_path, capsys):
    data, episodes = load(CASES / "gap")
    states = np.array(column(CASES / "gap", "observation.state"), np.float32)
    spans = [(0, 5), (6, 11), (12, 17), (18, 20)]  # of 12 and 9 frames, with a gap after the sixth
    assert [episode.record.session for episode in episodes] == [0, 0, 1, 1]
    for episode, (first, last) in zip(episodes, spans, strict=True):
        np.testing.assert_array_equal(episode.observation["state"], states[first : last + 1])
        assert episode.truncated.tolist() == [False] * (last - first - 1) + [True]
    assert data.notes.lines() == [
        "Jumps in recorded time, each of which ends an episode: 2 (episode 0 frame 5: 2.1 s, episode 1 frame 5: 2.1 s)"
    ]
    assert not exit_code("import", f"path={CASES / 'gap'}", f"output={tmp_path / 'out'}")
    assert "Jumps in recorded time, each of which ends an episode: 2" in capsys.readouterr().out
    with EpisodeStore.open(tmp_path / "out") as store:
        assert len(store) == 4 and store.metadata["instructions"] == ["do it"] * 4
        assert store.metadata["import_notes"] == data.notes.lines()


def shifted(times):
    """Put the clock back by a second before the eighth frame of the first episode."""
    return [time - 1 if 7 <= index < 12 else time for index, time in enumerate(times)]


def repeated(times):
    """Give the eighth frame the time of the seventh."""
    return [times[index - 1] if index == 7 else time for index, time in enumerate(times)]


@pytest.mark.parametrize(("change", "steps"), [(shifted, [6, 4, 8]), (repeated, [6, 3, 8])])
def test_time_that_does_not_advance_ends_an_episode(copy, change, steps):
    """Two frames of one moment are no neighbours, nor are those before and after a clock is put back."""
    path = copy("listed_success", timestamp=change)
    _, episodes = load(path)
    found = [episode.record.steps for episode in episodes if episode.record.steps]
    assert found == steps


def test_recordings_that_follow_one_another_in_an_episode_are_two(copy):
    """Both the numbers of the frames and their times begin again."""
    path = copy("listed_success", frame_index=lambda rows: [n % 6 if n < 12 else row for n, row in enumerate(rows)])
    table = parquet.read_table(path / TABLE)
    times = pyarrow.array([n % 6 / 10 if n < 12 else (n - 12) / 10 for n in range(21)], pyarrow.float32())
    parquet.write_table(table.set_column(table.schema.get_field_index("timestamp"), "timestamp", times), path / TABLE)
    _, episodes = load(path)
    assert [(episode.record.session, episode.record.steps) for episode in episodes] == [(0, 5), (0, 5), (1, 8)]


def test_jitter_is_no_gap(copy):
    jitter = np.random.default_rng(0).uniform(-0.018, 0.018, 21)
    path = copy("listed_success", timestamp=lambda times: [float(t + j) for t, j in zip(times, jitter, strict=True)])
    data, episodes = load(path)
    assert [episode.record.steps for episode in episodes] == [11, 8]
    assert [line.partition(":")[0] for line in data.notes.lines()] == [LAST_LEFT_OUT]


@pytest.mark.parametrize("factor", [0.5, 2.0, 0.8])
def test_another_rate_is_refused(copy, factor):
    path = copy("gap", timestamp=lambda times: [factor * 0.1 * (n if n < 12 else n - 12) for n in range(len(times))])
    with pytest.raises(DataError, match=r"episode 0: the control rate is 10 Hz, but the recorded times give .* Hz"):
        load(path)
    data, episodes = load(path, control_rate=10 / factor)
    assert data.notes.lines() == [f"Control rate of {10 / factor:g} Hz as configured; the data states 10 Hz"]
    assert [episode.record.steps for episode in episodes] == [11, 8]


def test_times_that_are_missing_or_contradict_are_named(copy):
    path = copy("gap", timestamp=lambda times: [float("nan") if n == 14 else 0.1 * n for n in range(len(times))])
    with pytest.raises(DataError, match=r"episode 1: 'timestamp' of frame 2 is missing or not finite"):
        load(path)
    shutil.rmtree(path)
    path = copy("listed_success", frame_index=lambda frames: [frame + (n in (5, 6)) for n, frame in enumerate(frames)])
    with pytest.raises(DataError, match=r"episode 0: frame_index goes from 4 to 6, timestamp from 0\.4 to 0\.5 s"):
        load(path)


# --- missing values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message", "kept", "cut"),
    [
        ("nan_action", "episode 1: 'action' of frame 4 has nan in element 1", [0], [11, 4, 3]),
        ("nan_state", r"episode 1: 'observation\.state' of frame 4 has nan in element 1", [0], [11, 3, 3]),
        ("null_rows", r"episode 0: 'observation\.state' of frame 3 has nan in element 0", [1], [2, 7, 8]),
    ],
)
def test_values_that_are_missing_are_named_dropped_or_cut_out(name, message, kept, cut):
    with pytest.raises(DataError, match=rf"file-000\.parquet: {message}.*foreign\.faults=cut"):
        load(CASES / name)
    data, episodes = load(CASES / name, faults="drop")
    assert [episode.record.session for episode in episodes] == kept
    assert data.notes.lines()[0].startswith("Episodes with values that are missing or not finite, left out: 1 (")
    data, episodes = load(CASES / name, faults="cut")
    assert [episode.record.steps for episode in episodes] == cut
    assert data.notes.lines()[0].startswith("Episodes cut where values are missing or not finite: 1 (")
    for episode in episodes:
        assert np.isfinite(episode.observation["state"]).all() and np.isfinite(episode.executed_action).all()


def test_rewards_infinities_and_several_faults_are_treated_alike(copy):
    rewards = [[float("inf")] if n in (2, 15) else [0.0] for n in range(21)]
    actions = [[None, 0.0, 0.0] if n in (2, 8) else [0.0] * 3 for n in range(21)]
    path = copy("listed_success", next__reward=lambda _: rewards, action=lambda _: actions)
    with pytest.raises(DataError, match=r"episode 0: .* of frame 2 has .*; 3 of its rows are missing"):
        load(path)
    _, episodes = load(path, faults="cut")
    assert [(episode.record.session, episode.record.steps) for episode in episodes] == [
        *((0, steps) for steps in (2, 5, 2)),
        *((1, steps) for steps in (3, 4)),
    ]


def test_rows_of_another_length_are_named(copy):
    path = copy("gap", action=lambda rows: [row[:2] if n == 16 else row for n, row in enumerate(rows)])
    with pytest.raises(DataError, match=r"episode 1: 'action' of row 4 has 2 values, expected 3"):
        load(path)


def test_actions_out_of_range_are_named_or_clipped(copy):
    path = copy(
        "listed_success", action=lambda rows: [[0, 1.79, 0.1] if n in (3, 4) else row for n, row in enumerate(rows)]
    )
    message = r"episode 0: 'action' of frame 3 is 1\.79 in element 1.*2 of 12 are not.*foreign\.clip=true"
    with pytest.raises(DataError, match=message):
        load(path)
    data, episodes = load(path, clip=True)
    assert episodes[0].executed_action[3, 1] == 1
    assert "Episodes with actions beyond the limits, clipped: 1 (0: 2 actions)" in data.notes.lines()


def test_one_element_lists_are_numbers():
    data, episodes = load(CASES / "listed_success")
    assert data.spec.reports_success and data.spec.reward_terms == ("reward",)
    assert [episode.success.sum() for episode in episodes] == [0, 0]  # what came of the last action was not recorded
    assert [episode.record.steps for episode in episodes] == [11, 8]


@pytest.mark.parametrize(
    ("success", "reward", "message"),
    [
        ([True, True], [1.0, 0.5], "2 (episode 0: success and a reward, episode 1: success and a reward)"),
        ([False, True], [0.0, 0.0], "1 (episode 1: success)"),
        ([False, False], [2.0, -1.0], "1 (episode 0: a reward)"),
        ([False, False], [0.0, 0.0], None),
    ],
)
def test_what_is_left_out_with_the_last_action_is_said(copy, success, reward, message):
    def ends(values, other):
        last = dict(zip((11, 20), values, strict=True))
        return lambda _: [[last.get(row, other)] for row in range(21)]

    data, _ = load(copy("listed_success", next__success=ends(success, False), next__reward=ends(reward, 0.0)))
    assert data.notes.lines() == ([f"{LAST_LEFT_OUT}: {message}"] if message else [])


# --- images ----------------------------------------------------------------------------------------------------------


def test_images_of_another_size_are_refused_or_transposed():
    path = CASES / "image_other_size"
    with pytest.raises(
        DataError, match=r"images\.front.* \(48, 32, 3\); declared as \(32, 48, 3\).*\{front:\{axes:whc\}\}' transposes"
    ):
        load(path)
    stored = cv2.imdecode(np.frombuffer(column(path, "observation.images.front")[3]["bytes"], np.uint8), 1)[..., ::-1]
    for option, expected in (
        ({"axes": "whc"}, stored.transpose(1, 0, 2)),
        ({"rotate": 90}, np.rot90(stored)),
        ({"rotate": 270}, np.rot90(stored, 3)),
    ):
        data, episodes = load(path, images={"front": option})
        np.testing.assert_array_equal(episodes[0].observation["images/front"][3], expected)
        assert data.notes.lines()[0].startswith("Images converted: 1 (images/front: ")


def test_an_image_of_another_size_later_on_is_named(copy):
    small = cv2.imencode(".png", np.zeros((32, 48, 3), np.uint8))[1].tobytes()
    other = cv2.imencode(".png", np.zeros((48, 32, 3), np.uint8))[1].tobytes()
    images = [{"bytes": other if n == 17 else small, "path": None} for n in range(21)]
    path = copy("image_other_size", observation__images__front=lambda _: images)
    with pytest.raises(
        DataError, match=r"episode 1: 'observation\.images\.front' of frame 5: expected an image of 32 x 48"
    ):
        load(path)


def test_much_larger_images_are_named_by_their_size(copy):
    noise = np.random.default_rng(0).integers(0, 256, (480, 640, 3), np.uint8)
    large, small = (cv2.imencode(".png", image)[1].tobytes() for image in (noise, noise[:32, :48]))
    path = copy("image_other_size", observation__images__front=lambda _: [{"bytes": large, "path": None}] * 21)
    with pytest.raises(DataError, match=r"stored as uint8 \(480, 640, 3\); declared as \(32, 48, 3\)"):
        load(path)
    shutil.rmtree(path)
    images = [{"bytes": large if n == 17 else small, "path": None} for n in range(21)]
    path = copy("image_other_size", observation__images__front=lambda _: images)
    with pytest.raises(DataError, match=r"episode 1: .* of frame 5.* (is|found) a PNG of 480 x 640 pixels"):
        load(path)


def test_depth_is_never_taken_for_colours():
    with pytest.raises(DataError, match=r"images\.depth.*16-bit images.*\(32, 48\); declared as \(32, 48, 3\)"):
        load(CASES / "depth_as_rgb")
    stored = cv2.imdecode(
        np.frombuffer(column(CASES / "depth_as_rgb", "observation.images.depth")[0]["bytes"], np.uint8), -1
    )
    _, episodes = load(CASES / "depth_as_rgb", images={"depth": {"low": 900, "high": 1100, "channels": 3}})
    expected = np.rint((stored.astype(float) - 900).clip(0, 200) / 200 * 255)
    found = episodes[0].observation["images/depth"]
    np.testing.assert_allclose(found[0], np.repeat(expected[..., None], 3, axis=2), atol=1)
    assert len(np.unique(found)) == 12, "1000 to 1011 mm stay apart"
    data, _ = load(CASES / "depth_as_rgb", leave_out=["images/depth"])
    assert list(data.spec.observation) == ["state"]


def test_grey_is_one_channel_and_depth_left_out_is_said(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["import", f"path={CASES / 'grey_depth'}", f"output={tmp_path / 'out'}"])
    assert (
        "Observations left out: 1 (images/depth: 16-bit depth, which 'foreign.images={depth:" in capsys.readouterr().out
    )
    with EpisodeStore.open(tmp_path / "out") as store:
        assert store.spec.observation["images/grey"].shape == (32, 48, 1)
        assert "images/depth" not in store.spec.observation
    options = ["foreign.images={grey:{channels:3},depth:{low:0,high:2000}}"]
    assert not exit_code("import", f"path={CASES / 'grey_depth'}", f"output={tmp_path / 'all'}", *options)
    with EpisodeStore.open(tmp_path / "all") as store:
        assert store.spec.observation["images/grey"].shape == (32, 48, 3)
        assert store.spec.observation["images/depth"].shape == (32, 48, 1)
    with pytest.raises(
        ConfigError, match="names 'images/dept', which is not an observation of the data; it has images/depth"
    ):
        load(CASES / "grey_depth", leave_out=["images/dept"])


def test_images_as_files_are_read_within_the_data_set_only(tmp_path):
    path = CASES / "images_by_path"
    _, episodes = load(path)
    last = cv2.imread(str(path / "images/observation.images.front/episode_000001/frame_000008.png"))[..., ::-1]
    np.testing.assert_array_equal(episodes[1].observation["images/front"][-1], last)
    shutil.copytree(path, tmp_path / "set")
    frame = tmp_path / "set/images/observation.images.front/episode_000001/frame_000002.png"
    frame.rename(tmp_path / "outside.png")
    with pytest.raises(DataError, match=r"episode 1: 'observation\.images\.front' of frame 2 is missing: neither"):
        load(tmp_path / "set")
    frame.symlink_to(tmp_path / "outside.png")
    with pytest.raises(DataError, match=r"of frame 2 is missing: neither in the table nor a file in"):
        load(tmp_path / "set")
    data, episodes = load(tmp_path / "set", faults="cut")
    assert [episode.record.steps for episode in episodes] == [11, 1, 5]
    assert data.notes.lines()[0].endswith("1 (1: 'observation.images.front' of frame 2 is missing)")
    _, episodes = load(tmp_path / "set", faults="drop")
    assert [episode.record.session for episode in episodes] == [0]


def test_images_may_be_paths_or_bytes_alone(tmp_path):
    shutil.copytree(CASES / "images_by_path", tmp_path / "set")
    for number, kind in ((0, "path"), (1, "bytes")):
        file = tmp_path / f"set/data/chunk-000/episode_{number:06d}.parquet"
        table = parquet.read_table(file)
        paths = [cell["path"] for cell in table["observation.images.front"].to_pylist()]
        cells = paths if kind == "path" else [(tmp_path / "set" / path).read_bytes() for path in paths]
        column_number = table.schema.get_field_index("observation.images.front")
        parquet.write_table(table.set_column(column_number, "observation.images.front", pyarrow.array(cells)), file)
    shutil.rmtree(tmp_path / "set/images/observation.images.front/episode_000001")
    _, episodes = load(tmp_path / "set")
    _, expected = load(CASES / "images_by_path")
    for actual, original in zip(episodes, expected, strict=True):
        np.testing.assert_array_equal(actual.observation["images/front"], original.observation["images/front"])


def test_an_episode_without_images_is_left_out(copy):
    image = {"bytes": cv2.imencode(".png", np.zeros((32, 48, 3), np.uint8))[1].tobytes(), "path": None}
    cells = [None if n < 6 else {"bytes": b"", "path": None} if n < 12 else image for n in range(21)]
    path = copy("image_other_size", observation__images__front=lambda _: cells)
    with pytest.raises(DataError, match=r"episode 0: 'observation\.images\.front' of frame 0 is missing"):
        load(path)
    _, episodes = load(path, faults="drop")
    assert [(episode.record.session, episode.record.steps) for episode in episodes] == [(1, 8)]
    _, episodes = load(path, faults="cut")
    assert [(episode.record.session, episode.record.steps) for episode in episodes] == [(0, 0), (1, 8)]


def test_episodes_without_tasks_are_told_the_name_of_the_task(tmp_path):
    shutil.copytree(CASES / "gap", tmp_path / "gap")
    file = tmp_path / "gap/meta/episodes/chunk-000/file-000.parquet"
    parquet.write_table(parquet.read_table(file).drop_columns(["tasks"]), file)
    assert load(tmp_path / "gap", task="sort")[0].instructions == ["sort", "sort"]


def test_counts_are_compared(tmp_path):
    shutil.copytree(CASES / "gap", tmp_path / "gap")
    info = json.loads((tmp_path / "gap/meta/info.json").read_text())
    for change, message in (
        ({"total_frames": 22}, "states 22 frames, but the episodes have 21"),
        ({"total_episodes": 3}, "0 to 2"),
    ):
        (tmp_path / "gap/meta/info.json").write_text(json.dumps(info | change))
        with pytest.raises(DataError, match=message):
            load(tmp_path / "gap")


def test_other_kinds_of_values_and_rounded_numbers_are_said(tmp_path):
    shutil.copytree(CASES / "gap", tmp_path / "gap")
    info = json.loads((tmp_path / "gap/meta/info.json").read_text())
    info["features"] |= {
        "observation.sound": {"dtype": "audio", "shape": [1], "names": None},
        "observation.ticks": {"dtype": "int64", "shape": [1], "names": None},
    }
    (tmp_path / "gap/meta/info.json").write_text(json.dumps(info))
    table = parquet.read_table(tmp_path / "gap" / TABLE)
    ticks = pyarrow.array([2**60 + n for n in range(21)])
    parquet.write_table(table.append_column("observation.ticks", ticks), tmp_path / "gap" / TABLE)
    data, _ = load(tmp_path / "gap")
    list(data.episodes())
    assert set(data.spec.observation) == {"state", "ticks"}
    lines = data.notes.lines()
    assert "Observations left out: 1 (sound: values of type audio)" in lines
    assert "Integers too large for float32, rounded: 1 (observation.ticks)" in lines

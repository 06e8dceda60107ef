"""LeRobot data sets whose descriptions hold other values than LeRobot writes: refused by file, feature and value."""

import json
import shutil
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet
import pytest

from robo_rl.core import DataError
from robo_rl.replay.interchange import ForeignConfig, LeRobot

CASES = Path(__file__).parents[1] / "data/cases/lerobot"
TABLE, EPISODES = "data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet"
STATE = "observation.state"


def steps(path):
    return [episode.record.steps for episode in LeRobot().load(path, ForeignConfig()).episodes()]


def described(tmp_path, edit, case="listed_success"):
    """Copy a case, with ``edit`` applied to what its info.json states."""
    path = Path(shutil.copytree(CASES / case, tmp_path / case))
    info = json.loads((path / "meta/info.json").read_text())
    info = edit(info) or info
    (path / "meta/info.json").write_text(json.dumps(info))
    return path


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("float32", "states no dtype"),
        (None, "states no dtype"),
        ({"shape": [3]}, "states no dtype"),
        ({"dtype": ["float32"], "shape": [3]}, "states no dtype"),
        ({"dtype": "float32"}, "has the shape None"),
        ({"dtype": "float32", "shape": "3"}, "has the shape '3'"),
        ({"dtype": "float32", "shape": [3.5]}, r"has the shape \[3\.5\]"),
        ({"dtype": "float32", "shape": [None]}, r"has the shape \[None\]"),
        ({"dtype": "float32", "shape": [True, 3]}, r"has the shape \[True, 3\]"),
        ({"dtype": "float32", "shape": [-3]}, r"has the shape \[-3\]"),
        ({"dtype": "float32", "shape": [[3]]}, r"has the shape \[\[3\]\]"),
    ],
)
def test_features_without_a_type_or_a_shape_are_named(tmp_path, feature, message):
    path = described(tmp_path, lambda info: info["features"].update({STATE: feature}))
    with pytest.raises(DataError, match=rf"info\.json: the feature '{STATE}' {message}"):
        steps(path)


@pytest.mark.parametrize("info", [[1], None, "info", 3])
def test_a_description_that_is_no_object_is_refused(tmp_path, info):
    path = described(tmp_path, lambda _: None)
    (path / "meta/info.json").write_text(json.dumps(info))
    with pytest.raises(DataError, match=r"info\.json: expected an object, found"):
        steps(path)


def test_features_that_are_a_list_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"info\.json: expected the features as an object, found '\[1\]'"):
        steps(described(tmp_path, lambda info: info.update(features=[1])))


def test_texts_need_no_shape(tmp_path):
    assert steps(described(tmp_path, lambda info: info["features"].update(note={"dtype": "string"}))) == [11, 8]


@pytest.mark.parametrize("size", [0, -1, None, "1000", 2.5, True])
def test_a_chunk_has_at_least_one_episode(tmp_path, size):
    path = described(tmp_path, lambda info: info.update(chunks_size=size), "images_by_path")
    with pytest.raises(DataError, match=r"info\.json: 'chunks_size' must be a whole number from 1 to 1000000, found"):
        steps(path)


@pytest.mark.parametrize("fps", [10**400, True, 1e300, 20_000])
def test_rates_that_no_robot_has_are_refused(tmp_path, fps):
    with pytest.raises(DataError, match=r"info\.json: fps must be a number above 0, at most 10000, found"):
        steps(described(tmp_path, lambda info: info.update(fps=fps)))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("length", [12, None]),
        ("length", ["12", "9"]),
        ("length", [12.5, 8.5]),
        ("length", [22, -1]),
        ("episode_index", [0, None]),
        ("data/chunk_index", [0, None]),
        ("data/file_index", [0, -1]),
        ("data/chunk_index", [0, 2**62]),
    ],
)
def test_numbers_of_the_list_of_episodes_are_named(tmp_path, name, values):
    path = described(tmp_path, lambda _: None)
    table = parquet.read_table(path / EPISODES)
    index = table.schema.get_field_index(name)
    parquet.write_table(table.set_column(index, name, pyarrow.array(values)), path / EPISODES)
    with pytest.raises(DataError, match=rf"episode [01] of the list of episodes: '{name}' must be a whole number from"):
        steps(path)


@pytest.mark.parametrize("line", ["[1]", "null", '{"length": 12}', '{"episode_index": 0}', '"text"'])
def test_lines_of_the_list_of_episodes_are_named(tmp_path, line):
    path = described(tmp_path, lambda _: None, "images_by_path")
    lines = (path / "meta/episodes.jsonl").read_text().splitlines()
    (path / "meta/episodes.jsonl").write_text("\n".join([line, *lines[1:]]))
    with pytest.raises(DataError, match=r"episode 0 of the list of episodes: '\w+' must be a whole number from 0"):
        steps(path)


def test_a_column_that_occurs_twice_is_named(tmp_path):
    """A table that was joined with another one has a column twice, and neither can be trusted."""
    path = described(tmp_path, lambda _: None)
    table = parquet.read_table(path / TABLE)
    parquet.write_table(table.append_column("action", table["action"]), path / TABLE)
    with pytest.raises(DataError, match=r"file-000\.parquet has several columns 'action'"):
        steps(path)

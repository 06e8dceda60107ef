"""Flags of a LeRobotDataset: ends and success are 0 or 1, or refused by their place."""

import json
import shutil
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet
import pytest

from robo_rl.core import DataError
from robo_rl.replay.interchange import ForeignConfig, LeRobot

CASE = Path(__file__).parents[1] / "data/cases/lerobot/listed_success"
TABLE = "data/chunk-000/file-000.parquet"


def load(path):
    data = LeRobot().load(path, ForeignConfig())
    return data, list(data.episodes())


def with_flags(path, name, values):
    """Copy a case, and put a feature of one number a frame into it."""
    shutil.copytree(CASE, path, dirs_exist_ok=True)
    info = json.loads((path / "meta/info.json").read_text())
    info["features"][name] = {"dtype": "float64", "shape": [1], "names": None}
    (path / "meta/info.json").write_text(json.dumps(info))
    table = parquet.read_table(path / TABLE)
    table = table.drop_columns(name) if name in table.column_names else table
    parquet.write_table(table.append_column(name, pyarrow.array(values, pyarrow.float64())), path / TABLE)
    return path


@pytest.mark.parametrize("value", [0.5, 2.0, 256.0, -2.0, float("inf")])
@pytest.mark.parametrize("name", ["success", "done"])
def test_flags_other_than_0_and_1_are_refused_by_their_place(tmp_path, name, value):
    path = with_flags(tmp_path, f"next.{name}", [value if n == 14 else 0 for n in range(21)])
    with pytest.raises(DataError, match=rf"file-000\.parquet: episode 1: '{name}' of frame 2 (is {value}|has inf)"):
        load(path)


@pytest.mark.parametrize("missing", [None, float("nan"), -1.0])
def test_success_that_is_missing_is_unknown_and_said(tmp_path, missing):
    values = [missing if n in (1, 2) else 1.0 for n in range(21)]
    data, episodes = load(with_flags(tmp_path, "next.success", values))
    assert [int(episode.success.min()) for episode in episodes] == [-1, 1]
    assert episodes[0].success.tolist().count(-1) == 2
    note = "Episodes with steps whose success is missing, stored as unknown: 1 (0: 2)"
    assert (note in data.notes.lines()) == (missing != -1)


def test_an_episode_keeps_the_step_that_is_done_before_a_gap(tmp_path):
    """What is recorded after a gap may be the next attempt."""
    path = with_flags(tmp_path, "next.done", [float(n in (5, 11, 20)) for n in range(21)])
    table = parquet.read_table(path / TABLE)
    times = [time + (5 < n < 12) for n, time in enumerate(table["timestamp"].to_pylist())]
    index = table.schema.get_field_index("timestamp")
    parquet.write_table(table.set_column(index, "timestamp", pyarrow.array(times)), path / TABLE)
    data, episodes = load(path)
    ends = [(episode.record.steps, bool(episode.terminated[-1])) for episode in episodes]
    assert ends == [(6, True), (6, True), (9, True)]
    note = "Episodes that are done before their last step, and are split there: 1 (0: 1 steps, first 5 of 12)"
    assert note in data.notes.lines()

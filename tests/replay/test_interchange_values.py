"""Texts and numbers of others that a data set of ours cannot hold: refused where they were read, or kept by name."""

import json
import shutil
import warnings
from pathlib import Path

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest

from robo_rl.core import DataError
from robo_rl.replay import EpisodeStore
from robo_rl.replay.interchange.data import as_type
from robo_rl.replay.interchange.rlds_layout import Feature
from robo_rl.replay.interchange.rosbag_messages import TopicConfig

from ..rigs.bag_cases import COMMAND, STATE, commands, joints
from ..rigs.bag_cases import load as load_rosbag
from ..rigs.bags import number, record_messages
from .test_interchange_damage import run_import
from .test_lerobot_cases import CASES, TABLE
from .test_rlds_cases import STEPS as RLDS_STEPS
from .test_rlds_cases import load as load_rlds
from .test_rlds_cases import write as write_rlds
from .test_robomimic_cases import STEPS
from .test_robomimic_cases import write as write_robomimic

DEEP = "[" * 60 + "]" * 60
HALF = '"\\ud800"'
LARGE = 1e300


@pytest.fixture(autouse=True)
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def lerobot(tmp_path, **columns):
    """Copy a data set; ``columns`` replace the first value of a feature."""
    path = tmp_path / "lerobot"
    shutil.copytree(CASES / "listed_success", path)
    table = parquet.read_table(path / TABLE)
    for feature, value in columns.items():
        name = feature.replace("__", ".")
        rows = [[value], *([0.0] for _ in range(len(table) - 1))]
        if name == "timestamp":
            rows = [value, *table[name].to_pylist()[1:]]
        table = table.set_column(table.schema.get_field_index(name), name, pyarrow.array(rows))
    parquet.write_table(table, path / TABLE)
    return path


def robomimic(tmp_path, about="0", **changes):
    path = write_robomimic(tmp_path / "demo.hdf5", **changes)
    with h5py.File(path, "r+") as file:
        file["data"].attrs["env_args"] = f'{{"env_kwargs": {{"control_freq": 10}}, "about": {about}}}'
    return path


def refused(path, output, name, message):
    """Check that an import is refused for ``said``, and blames no file of ours."""
    with pytest.raises(DataError, match=message) as caught:
        run_import(path, output, name)
    assert "partial" not in str(caught.value) and "cannot be read as" not in str(caught.value)


# --- texts -----------------------------------------------------------------------------------------------------------


def test_numbers_that_are_none_are_kept_by_name(tmp_path):
    path, output = lerobot(tmp_path), tmp_path / "out"
    (path / "meta/stats.json").write_text('{"action": {"std": [NaN, 1, -Infinity, 1e999]}}')
    run_import(path, output, "LeRobot")
    kept = EpisodeStore.open(output).metadata["imported"]["statistics"]
    assert kept == {"action": {"std": ["NaN", 1, "-Infinity", "Infinity"]}}
    run_import(robomimic(tmp_path, "NaN"), tmp_path / "other", "Robomimic")
    assert EpisodeStore.open(tmp_path / "other").metadata["imported"]["environment"]["about"] == "NaN"


@pytest.mark.parametrize(
    ("text", "message"), [(DEEP, "nested deeper than 56 levels"), (HALF, "surrogates not allowed")]
)
def test_texts_that_no_data_set_holds_are_refused_where_they_stand(tmp_path, text, message):
    path = lerobot(tmp_path)
    (path / "meta/stats.json").write_text(text)
    refused(path, tmp_path / "out", "LeRobot", rf"meta/stats\.json: expected JSON .*{message}")
    (path / "meta/stats.json").unlink()
    info = json.loads((path / "meta/info.json").read_text())
    (path / "meta/info.json").write_text(json.dumps({**info, "robot_type": 0}).replace('type": 0', f'type": {text}'))
    refused(path, tmp_path / "out", "LeRobot", rf"meta/info\.json: expected JSON .*{message}")
    refused(robomimic(tmp_path, text), tmp_path / "out", "Robomimic", rf"/data/env_args: expected JSON .*{message}")
    path = write_rlds(tmp_path / "rlds")
    (path / "dataset_info.json").write_text(f'{{"splits": [], "about": {text}}}')
    refused(path, tmp_path / "out", "Rlds", rf"dataset_info\.json: expected JSON .*{message}")
    (path / "features.json").write_text(text)
    refused(path, tmp_path / "out", "Rlds", rf"features\.json: expected JSON .*{message}")


def test_bytes_that_are_no_text_are_refused_where_they_stand(tmp_path):
    path = robomimic(tmp_path)
    with h5py.File(path, "r+") as file:
        file["data/demo_1"].attrs.create("lang", "\udcff".encode(errors="surrogateescape"), dtype=h5py.string_dtype())
    refused(path, tmp_path / "out", "Robomimic", r"demo_1/lang: expected UTF-8 text, found '\\udcff'")
    with h5py.File(path, "r+") as file:
        file["data"].attrs.create("env_args", b'{"a": "\xff"}', dtype=h5py.string_dtype())
    refused(path, tmp_path / "out", "Robomimic", "data/env_args: expected JSON")


def test_a_folder_of_any_name_may_be_imported(tmp_path):
    run_import(write_rlds(tmp_path / "\udcff"), tmp_path / "out", "Rlds")
    assert EpisodeStore.open(tmp_path / "out").metadata["imported_from"]["path"].endswith("\ufffd")


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"next__reward": LARGE}, r"'reward' of frame 0 has 1e\+300 in element 0 \(too large for float32\)"),
        ({"next__reward": 1e39}, "'reward' of frame 0 has 1e"),
        ({"timestamp": LARGE}, r"'timestamp': expected times in seconds, frame 0 has 1e\+300"),
    ],
)
def test_numbers_of_lerobot_out_of_range_are_named(tmp_path, columns, message):
    refused(lerobot(tmp_path, **columns), tmp_path / "out", "LeRobot", rf"file-000\.parquet: episode 0.*{message}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": np.full(STEPS, LARGE)}, r"'reward' of frame 0 has 1e\+300 in element 0 \(too large for float32\)"),
        ({"obs/state": np.full((STEPS, 3), LARGE)}, r"'obs/state' of frame 0 has inf in element 0 \(or too large\)"),
        ({"actions": np.full((STEPS, 2), LARGE)}, r"'action' of frame 0 has 1e\+300 in element 0 \(too large"),
    ],
)
def test_numbers_of_robomimic_out_of_range_are_named(tmp_path, changes, message):
    refused(robomimic(tmp_path, **changes), tmp_path / "out", "Robomimic", rf"demo\.hdf5: demo_0.*{message}")


def test_numbers_of_rlds_out_of_range_are_named(tmp_path):
    wide = Feature("tensor", (), "float64", True)
    flag, small = (Feature("tensor", (), kind) for kind in ("bool", "int8"))
    rows = [np.float64(LARGE).tobytes()] * RLDS_STEPS
    for name, columns, message in (
        ("reward", {"reward": (wide, rows)}, r"episode 0: 'reward' of frame 0 has 1e\+300 in element 0"),
        (
            "small",
            {"observation__n": (small, np.arange(8) * 100)},
            "found 200 in row 2",
        ),
        ("flag", {"is_terminal": (flag, [0] * 7 + [2])}, "found 2 in row 7"),
    ):
        columns = {key: (kind, np.array(v) if kind is flag else v) for key, (kind, v) in columns.items()}
        refused(write_rlds(tmp_path / name, **columns), tmp_path / "out", "Rlds", message)
    path = write_rlds(tmp_path / "time", observation__time=(wide, rows))
    with pytest.raises(DataError, match=r"'steps/observation/time': expected times in seconds, frame 0 has 1e\+300"):
        load_rlds(path, {"time": "observation/time"})


def test_numbers_of_bags_out_of_range_are_named(tmp_path):
    path = record_messages(tmp_path / "state", joints(position=[0.0, LARGE]))
    with pytest.raises(DataError, match=r"'/joints' of frame 0 has inf in element 1 \(or too large\)"):
        load_rosbag(path, STATE, COMMAND)
    messages = [*joints(), *(("/reward", at, number(LARGE)) for _, at, _ in commands())]
    path = record_messages(tmp_path / "reward", sorted(messages, key=lambda message: message[1]))
    reward = TopicConfig(topic="reward", gives="reward", fields=("data",))
    with pytest.raises(DataError, match=r"'reward' of frame 0 has 1e\+300 in element 0 \(too large for float32\)"):
        load_rosbag(path, STATE, COMMAND, reward)


def test_numbers_become_another_type_where_it_holds_them():
    assert as_type(np.array([0.0, 1.0]), "bool").tolist() == [False, True]
    assert np.isnan(as_type(np.array([np.nan, np.inf]), "float32")[0])
    for rows, kind in (([0.5], "int8"), ([256], "int8"), ([-1], "uint8"), ([1e300], "float32"), ([np.nan], "int64")):
        with pytest.raises(ValueError, match=r"found .* in row 0"):
            as_type(np.array(rows), kind)


def test_an_export_that_was_changed_is_named(tmp_path):
    path = Path(tmp_path) / "lerobot"
    shutil.copytree(CASES / "listed_success", path)
    facts = path / "meta/robo_rl/dataset.json"
    facts.parent.mkdir()
    for text in (f'{{"format": {HALF}}}', '{"format": NaN}'):
        facts.write_text(text)
        refused(path, tmp_path / "out", "LeRobot", r"meta/robo_rl/dataset\.json")

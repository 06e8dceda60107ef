"""Exported files: as their formats are documented, and as the readers of others see them."""

import json

import h5py
import numpy as np
import pyarrow.parquet as parquet
import pytest

from robo_rl.commands.export import data_set
from robo_rl.core import DataError
from robo_rl.replay.interchange import ForeignConfig, LeRobot, Rlds, Robomimic
from robo_rl.replay.interchange.pictures import from_file
from robo_rl.replay.interchange.tfrecord import append_record, decode_example, read_records

from ..rigs.interchange import TOLD


def test_lerobot_files_are_as_documented(recorded, tmp_path):
    store, episodes = recorded
    LeRobot(version="v3.0", action="executed", robot_type="franka").export(data_set(store, None), tmp_path / "v3")
    info = json.loads((tmp_path / "v3/meta/info.json").read_text())
    counts = {"total_episodes": 3, "total_frames": 20, "total_tasks": 2, "fps": 10, "robot_type": "franka"}
    assert {key: info[key] for key in counts} == counts
    assert info["splits"] == {"train": "0:3"}
    assert info["features"]["observation.state"] == {"dtype": "float32", "shape": [3], "names": ["x", "y", "z"]}
    table = parquet.read_table(tmp_path / "v3/data/chunk-000/file-000.parquet")
    assert table["episode_index"].to_pylist() == [0] * 7 + [1] + [2] * 12
    assert table["task_index"].to_pylist() == [0] * 7 + [1] + [0] * 12
    assert table["index"].to_pylist() == list(range(20))
    np.testing.assert_array_equal(table["timestamp"].to_numpy()[8:], np.arange(12, dtype=np.float32) / np.float32(10))
    np.testing.assert_array_equal(table["action"].to_pylist()[3], episodes[0][3].executed_action)
    assert table["next.done"].to_pylist() == [False] * 6 + [True] + [False] * 13
    assert table["next.truncated"].to_pylist() == [False] * 7 + [True] + [False] * 11 + [True]
    rows = parquet.read_table(tmp_path / "v3/meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [(row["dataset_from_index"], row["dataset_to_index"]) for row in rows] == [(0, 7), (7, 8), (8, 20)]
    assert rows[2]["tasks"] == ["put the cube away"] and rows[2]["length"] == 12

    LeRobot(version="v2.1").export(data_set(store, None), tmp_path / "v2")
    lines = [json.loads(line) for line in (tmp_path / "v2/meta/episodes_stats.jsonl").read_text().splitlines()]
    states = np.stack([step.observation["state"] for step in episodes[2]])
    np.testing.assert_allclose(lines[2]["stats"]["observation.state"]["mean"], states.mean(0, np.float64), rtol=1e-6)
    assert np.shape(lines[2]["stats"]["observation.images.front"]["std"]) == (3, 1, 1)
    assert len(parquet.read_table(tmp_path / "v2/data/chunk-000/episode_000002.parquet")) == 12


def test_robomimic_file_is_as_documented(recorded, tmp_path):
    store, episodes = recorded
    Robomimic(action="executed").export(data_set(store, None), tmp_path / "demo.hdf5")
    with h5py.File(tmp_path / "demo.hdf5") as file:
        # As robomimic.utils.dataset.SequenceDataset lists them.
        assert sorted(int(name[5:]) for name in file["data"]) == [0, 1, 2]
        assert file["data"].attrs["total"] == 20
        assert json.loads(file["data"].attrs["env_args"])["env_kwargs"]["control_freq"] == 10
        demo = file["data/demo_2"]
        assert demo.attrs["num_samples"] == 12
        np.testing.assert_array_equal(demo["actions"][4], episodes[2][4].executed_action)
        np.testing.assert_array_equal(demo["obs/state"][4], episodes[2][4].observation["state"])
        np.testing.assert_array_equal(
            demo["next_obs/front_image"][11], episodes[2][11].next_observation["images/front"]
        )
        np.testing.assert_array_equal(
            demo["rewards"][()], np.float32([step.rewards["success"] for step in episodes[2]])
        )
        assert demo["dones"][()].sum() == 0 and file["data/demo_0/dones"][()].tolist() == [0] * 6 + [1]
        assert json.loads(demo.attrs["ep_meta"]) == {"lang": "put the cube away"}


def test_what_a_robot_was_told_is_read_from_where_robosuite_has_it(recorded, tmp_path):
    store, _ = recorded
    path = tmp_path / "demo.hdf5"
    Robomimic().export(data_set(store, None), path)
    with h5py.File(path, "r+") as file:
        del file["robo_rl"]
        for demo in file["data"].values():
            del demo.attrs["lang"]
        file["data/demo_0"].attrs["ep_meta"] = '{"layout_id": 3, "lang": "open the drawer"}'
        file["data/demo_1"].attrs["ep_meta"] = "{}"
        del file["data/demo_2"].attrs["ep_meta"]
    assert list(Robomimic().load(path, ForeignConfig(task="kitchen")).instructions) == [
        "open the drawer",
        "kitchen",
        "kitchen",
    ]
    with h5py.File(path, "r+") as file:
        file["data/demo_2"].attrs["ep_meta"] = "{"
    with pytest.raises(DataError, match="demo_2/ep_meta: expected JSON"):
        Robomimic().load(path, ForeignConfig())


def test_a_robomimic_file_of_an_earlier_version_is_read(recorded, tmp_path):
    store, _ = recorded
    data, path = data_set(store, None), tmp_path / "demo.hdf5"
    Robomimic().export(data, path)
    with h5py.File(path, "r+") as file:
        file.move("robo_rl", "data/robo_rl")
    found = Robomimic().load(path, ForeignConfig())
    assert found.spec == data.spec and len(list(found.episodes())) == 3


def test_rlds_files_are_as_documented(recorded, tmp_path):
    """Of L actions there are L + 1 steps, the last of which is the final observation; a file begins at a size."""
    store, episodes = recorded
    Rlds(action="executed", shard_megabytes=0.01).export(data_set(store, None), tmp_path / "set")
    info = json.loads((tmp_path / "set/dataset_info.json").read_text())
    (split,) = info["splits"]
    assert (info["name"], split["name"], split["shardLengths"]) == ("test", "train", ["1", "2"])
    shards = [tmp_path / f"set/test-train.tfrecord-{number:05d}-of-00002" for number in range(2)]
    assert sum(shard.stat().st_size for shard in shards) == int(split["numBytes"])
    records = [decode_example(record, shard) for shard in shards for record in read_records(shard)]
    for example, steps in zip(records, episodes, strict=True):
        count = len(steps) + 1
        actions = example["steps/action"].reshape(count, 2)
        np.testing.assert_array_equal(actions[:-1], [step.executed_action for step in steps])
        states = example["steps/observation/state"].reshape(count, 3)
        np.testing.assert_array_equal(states[-1], steps[-1].next_observation["state"])
        picture = from_file(example["steps/observation/front_image"][-1], shards[0])
        np.testing.assert_array_equal(picture, steps[-1].next_observation["images/front"])
        np.testing.assert_array_equal(
            example["steps/reward"][:-1], np.float32([step.rewards["success"] for step in steps])
        )
        assert not actions[-1].any() and not example["steps/reward"][-1]
        assert example["steps/is_first"].tolist() == [1] + [0] * (count - 1)
        assert example["steps/is_last"].tolist() == [0] * (count - 1) + [1]
        assert example["steps/is_terminal"].tolist() == [0] * (count - 1) + [int(steps[-1].terminated)]
        assert example["steps/discount"].tolist() == [1.0] * (count - 2) + [float(not steps[-1].terminated), 0.0]
    assert set(records[1]["steps/language_instruction"]) == {b"wait"}
    statistics = json.loads((tmp_path / "set/dataset_statistics.json").read_text())
    assert (statistics["num_trajectories"], statistics["num_transitions"]) == (3, 20)
    states = np.stack([step.observation["state"] for episode in episodes for step in episode])
    np.testing.assert_allclose(statistics["observation/state"]["mean"], states.mean(0, np.float64), rtol=1e-6)


# --- data that robo-rl did not write ---------------------------------------------------------------------------------


def test_lerobot_reads_what_is_exported(recorded, tmp_path):
    lerobot = pytest.importorskip("lerobot.datasets.lerobot_dataset")
    store, episodes = recorded
    version = lerobot.CODEBASE_VERSION
    LeRobot(version=version).export(data_set(store, None), tmp_path / "set")
    read = lerobot.LeRobotDataset("local/set", root=tmp_path / "set")
    steps = [
        (step, instruction)
        for episode, instruction in zip(episodes, TOLD["instructions"], strict=True)
        for step in episode
    ]
    assert (len(read), read.num_episodes, read.fps) == (20, 3, 10)
    for index, (step, instruction) in enumerate(steps):
        frame = read[index]
        assert frame["task"] == instruction
        np.testing.assert_array_equal(frame["observation.state"].numpy(), step.observation["state"])
        np.testing.assert_array_equal(frame["action"].numpy(), step.proposed_action)
        picture = np.round(255 * frame["observation.images.front"].numpy()).astype(np.uint8)
        np.testing.assert_array_equal(picture.transpose(1, 2, 0), step.observation["images/front"])
        assert bool(frame["next.done"]) == step.terminated
    states = np.stack([step.observation["state"] for step, _ in steps])
    np.testing.assert_allclose(read.meta.stats["observation.state"]["std"], states.std(0), rtol=1e-5)


def test_tensorflow_datasets_reads_what_is_exported(recorded, tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets")
    store, episodes = recorded
    Rlds(shard_megabytes=0.01).export(data_set(store, None), tmp_path / "set")
    read = list(tfds.builder_from_directory(str(tmp_path / "set")).as_dataset(split="train"))
    assert len(read) == 3
    for found, steps, instruction in zip(read, episodes, TOLD["instructions"], strict=True):
        rows = list(found["steps"].as_numpy_iterator())
        assert [bool(row["is_last"]) for row in rows] == [False] * len(steps) + [True]
        assert bool(rows[-1]["is_terminal"]) == steps[-1].terminated
        observations = [*(step.observation for step in steps), steps[-1].next_observation]
        for row, observation in zip(rows, observations, strict=True):
            assert row["language_instruction"].decode() == instruction
            np.testing.assert_array_equal(row["observation"]["state"], observation["state"])
            np.testing.assert_array_equal(row["observation"]["front_image"], observation["images/front"])
        for row, step in zip(rows, steps, strict=False):
            np.testing.assert_array_equal(row["action"], step.proposed_action)
            assert row["reward"] == np.float32(step.rewards["success"])


def test_what_tensorflow_datasets_writes_is_imported(tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets")
    kinds, random = tfds.features, np.random.default_rng(0)
    observation = {"camera_image": kinds.Image(shape=(8, 6, 3)), "state": kinds.Tensor(shape=(5,), dtype=np.float64)}
    step = {
        "observation": kinds.FeaturesDict(observation),
        "action": kinds.Tensor(shape=(3,), dtype=np.float32),
        "reward": kinds.Scalar(dtype=np.float32),
        "is_terminal": kinds.Scalar(dtype=np.bool_),
        "language_instruction": kinds.Text(),
    }
    features = kinds.FeaturesDict({"steps": kinds.Dataset(step)})
    steps = [
        {
            "observation": {
                "camera_image": random.integers(0, 256, (8, 6, 3), np.uint8),
                "state": random.standard_normal(5),
            },
            "action": random.uniform(-1, 1, 3).astype(np.float32),
            "reward": np.float32(number),
            "is_terminal": number == 3,
            "language_instruction": "open it",
        }
        for number in range(4)
    ]
    features.save_config(str(tmp_path))
    serialiser = tfds.core.example_serializer.ExampleSerializer(features.get_serialized_info())
    with (tmp_path / "theirs-train.tfrecord-00000-of-00001").open("wb") as stream:
        append_record(stream, serialiser.serialize_example(features.encode_example({"steps": steps})))
    data = Rlds().load(tmp_path, ForeignConfig(control_rate=10.0))
    (episode,) = data.episodes()
    assert data.instructions == ["open it"] and episode.terminated.tolist() == [False, False, True]
    np.testing.assert_array_equal(episode.executed_action, [step["action"] for step in steps[:3]])
    np.testing.assert_array_equal(episode.rewards["reward"], [0, 1, 2])
    for key, name in (("state", "state"), ("images/camera", "camera_image")):
        rows = np.stack([step["observation"][name] for step in steps])
        np.testing.assert_array_equal(episode.observation[key], rows.astype(episode.observation[key].dtype))

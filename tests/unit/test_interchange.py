"""Data sets to the formats of other projects and back: nothing is lost, or it is said."""

import dataclasses
import json

import cv2
import h5py
import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest
from rosbags.highlevel import AnyReader

from robo_rl.commands.export import data_set
from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec, Verdict
from robo_rl.replay import EpisodeStore
from robo_rl.replay.interchange import ForeignConfig, LeRobot, Rlds, Robomimic, Rosbag
from robo_rl.replay.interchange.pictures import from_file
from robo_rl.replay.interchange.rlds_layout import Feature, features_json
from robo_rl.replay.interchange.rosbag import WRENCH
from robo_rl.replay.interchange.rosbag_topics import TopicConfig
from robo_rl.replay.interchange.statistics import FeatureStatistics
from robo_rl.replay.interchange.tfrecord import append_record, decode_example, encode_example, read_records

from ..bags import write_bag
from ..replay_episodes import METADATA, SPEC, assert_same, make_episode

FORMATS = {
    "lerobot_v21": LeRobot(version="v2.1"),
    "lerobot_v3": LeRobot(version="v3.0"),
    "rlds": Rlds(),
    "robomimic": Robomimic(),
    "rosbag_mcap": Rosbag(storage="mcap"),
    "rosbag_sqlite3": Rosbag(storage="sqlite3", distribution="humble"),
}
FILES = [name for name in FORMATS if not name.startswith("rosbag")]
"""Formats whose foreign data names what it gives; topics of a bag do not."""
LENGTHS = (7, 1, 12)
TOLD = {**METADATA, "instructions": ["put the cube away", "wait", "put the cube away"]}


def record(path, spec=SPEC, metadata=TOLD, lengths=LENGTHS):
    """Make a data set; return it, open, and its episodes: a verdict in the first, none is alike."""
    ends = ("terminated", "truncated", "truncated")
    episodes = [make_episode(n, steps, spec, ends[n % 3]) for n, steps in enumerate(lengths)]
    verdict = Verdict(changed=True, reasons=("workspace",), message="0.1 m outside")
    episodes[0][3 % lengths[0]] = dataclasses.replace(episodes[0][3 % lengths[0]], verdict=verdict)
    store = EpisodeStore.create(path, spec, metadata)
    for episode in episodes:
        store.append_episode(episode)
    return store, episodes


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    store, episodes = record(tmp_path_factory.mktemp("data") / "set")
    with store:
        yield store, episodes


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_exported_is_imported_bit_for_bit(recorded, tmp_path, name):
    store, episodes = recorded
    FORMATS[name].export(data_set(store, None), tmp_path / "there")
    found = FORMATS[name].load(tmp_path / "there", ForeignConfig())
    assert found.spec == SPEC
    assert {key: found.metadata[key] for key in METADATA} == METADATA
    assert found.metadata["exported_from"]["path"] == str(store.path)
    assert list(found.instructions) == TOLD["instructions"]
    read = list(found.episodes())
    assert len(read) == len(episodes)
    for ours, theirs in zip(read, episodes, strict=True):
        assert_same(ours.transitions(), theirs)


@pytest.mark.parametrize("name", FORMATS)
def test_a_task_of_other_shapes_survives(tmp_path, name):
    spec = EnvSpec(
        task="other",
        observation={"state": ArraySpec((1,)), "object": ArraySpec((2, 2), "float64"), "tactile": ArraySpec((4,))},
        action=ArraySpec((1,), low=-1, high=1),
        action_space="joint_position",
        action_frame="joint",
        control_rate=20.0,
        max_episode_steps=None,
        reward_terms=(),
        reports_success=False,
    )
    store, episodes = record(tmp_path / "set", spec, metadata={}, lengths=(4, 2))
    with store:
        FORMATS[name].export(data_set(store, "push"), tmp_path / "there")
    found = FORMATS[name].load(tmp_path / "there", ForeignConfig())
    assert found.spec == spec and list(found.instructions) == ["push", "push"]
    for ours, theirs in zip(found.episodes(), episodes, strict=True):
        assert_same(ours.transitions(), theirs)


def test_videos_lose_little_and_only_of_images(tmp_path):
    store, episodes = record(tmp_path / "set")
    with store:
        smooth = data_set(store, None)
        ramp = np.add.outer(np.arange(24), np.arange(24))[..., None] * np.array([2, 4, 1])
        pictures = [np.clip(ramp + 3 * np.arange(n + 1)[:, None, None, None], 0, 255).astype(np.uint8) for n in LENGTHS]
        filmed = [
            dataclasses.replace(episode, observation={**episode.observation, "images/front": frames})
            for episode, frames in zip(smooth.episodes(), pictures, strict=True)
        ]
        smooth = dataclasses.replace(smooth, episodes=lambda: iter(filmed))
        for version in ("v2.1", "v3.0"):
            format_ = LeRobot(version=version, images="video", quality=10)
            format_.export(smooth, tmp_path / version)
            read = list(format_.load(tmp_path / version, ForeignConfig()).episodes())
            for ours, frames, theirs in zip(read, pictures, episodes, strict=True):
                difference = np.abs(ours.observation["images/front"].astype(int) - frames)
                assert difference.mean() < 3
                np.testing.assert_array_equal(ours.observation["images/front"][-1], frames[-1])
                np.testing.assert_array_equal(ours.proposed_action, [step.proposed_action for step in theirs])
        info = json.loads((tmp_path / "v3.0/meta/info.json").read_text())
        assert info["features"]["observation.images.front"]["info"]["video.codec"] in ("h264", "av1")
        assert len(list((tmp_path / "v2.1/videos").rglob("*.mp4"))) == 3
        assert len(list((tmp_path / "v3.0/videos").rglob("*.mp4"))) == 1


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


def test_statistics_are_those_of_numpy():
    random = np.random.default_rng(0)
    vectors = random.standard_normal((50, 3))
    images = random.integers(0, 256, (50, 5, 4, 3), np.uint8) // 2
    whole, first = FeatureStatistics(), FeatureStatistics()
    first.add({"vector": vectors[:20], "image": images[:20]})
    whole.add({"vector": vectors[20:], "image": images[20:]})
    whole.merge(first)
    for name, rows in (("vector", vectors), ("image", images.reshape(-1, 3) / 255)):
        found = whole.result()[name]
        assert found["count"] == [50]
        for key, expected in {
            "min": rows.min(0),
            "max": rows.max(0),
            "mean": rows.mean(0),
            "std": rows.std(0),
            "q10": np.quantile(rows, 0.1, axis=0, method="inverted_cdf"),
            "q99": np.quantile(rows, 0.99, axis=0, method="inverted_cdf"),
        }.items():
            np.testing.assert_allclose(found[key].ravel(), expected, rtol=1e-9, err_msg=f"{name} {key}")


def test_what_lerobot_cannot_hold_is_refused(recorded, tmp_path):
    store, _ = recorded
    data = data_set(store, None)
    for spec, said in (
        (dataclasses.replace(SPEC, control_rate=12.5), "whole numbers of frames a second"),
        (dataclasses.replace(SPEC, observation={"images/front": ArraySpec((24, 24, 9), "uint8")}), "one frame"),
    ):
        with pytest.raises(DataError, match=said):
            LeRobot().export(dataclasses.replace(data, spec=spec), tmp_path / "there")


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("lerobot_v3", "object", "environment_state"),
        ("lerobot_v21", "object", "environment_state"),
        ("rlds", "arm/joints", "arm_joints"),
        ("robomimic", "arm/joints", "arm_joints"),
    ],
)
def test_observations_never_take_the_place_of_others(tmp_path, name, first, second):
    observation = {first: ArraySpec((2,)), second: ArraySpec((2,))}
    store, _ = record(tmp_path / "set", dataclasses.replace(SPEC, observation=observation))
    with store, pytest.raises(DataError, match=f"the observations '{first}' and '{second}' would both be"):
        FORMATS[name].export(data_set(store, None), tmp_path / "there")
    assert not (tmp_path / "there").exists()


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
    with pytest.raises(DataError, match="demo_2/ep_meta is damaged"):
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


def strip(name, path):
    """Remove from an export what only robo-rl knows of."""
    if name == "robomimic":
        with h5py.File(path, "r+") as file:
            for group in (file, *file["data"].values()):
                del group["robo_rl"]
    else:
        (path / {"rlds": "robo_rl.json"}.get(name, "meta/robo_rl/dataset.json")).unlink()


@pytest.mark.parametrize("name", FILES)
def test_foreign_data_becomes_episodes(recorded, tmp_path, name):
    store, episodes = recorded
    FORMATS[name].export(data_set(store, None), tmp_path / "there")
    strip(name, tmp_path / "there")
    config = ForeignConfig(
        task="cube",
        action_space="end_effector_delta",
        action_low=[-2.0, -2.0],
        action_high=[2.0, 2.0],
        reward_term="success",
        control_rate=10.0 if name == "rlds" else None,
        extra={"translation_scale": 0.01},
    )
    with pytest.raises(DataError, match=r"foreign\.action_low"):
        next(FORMATS[name].load(tmp_path / "there", ForeignConfig(control_rate=10.0)).episodes())
    has_final_observations = name in ("rlds", "robomimic")
    if has_final_observations:
        episodes_ = episodes
    else:
        # The final observation was not recorded: a single frame that was cut has no step; so it is left out here.
        with pytest.raises(DataError, match="no action between two observations"):
            list(FORMATS[name].load(tmp_path / "there", config).episodes())
        with EpisodeStore.create(tmp_path / "two", SPEC, TOLD) as two:
            for number in (0, 2):
                two.append_episode(episodes[number])
            FORMATS[name].export(data_set(two, None), tmp_path / "again")
        strip(name, tmp_path / "again")
        (tmp_path / "there").rename(tmp_path / "old")
        (tmp_path / "again").rename(tmp_path / "there")
        episodes_ = [episodes[0], episodes[2]]
    data = FORMATS[name].load(tmp_path / "there", config)
    assert (data.spec.control_rate, data.spec.reward_terms, data.spec.action_space) == (
        10.0,
        ("success",),
        "end_effector_delta",
    )
    assert data.spec.extra == {"translation_scale": 0.01, "action_low": [-2, -2], "action_high": [2, 2]}
    assert data.instructions[0] == "put the cube away"
    with EpisodeStore.create(tmp_path / "imported", data.spec, data.metadata) as imported:
        for read, expected in zip(data.episodes(), episodes_, strict=True):
            steps = read.transitions()
            imported.append_episode(steps)
            ended = expected[-1].terminated
            whole = ended or has_final_observations
            assert len(steps) == len(expected) - (not whole)
            assert (steps[-1].terminated, steps[-1].truncated) == (ended, not ended)
            for ours, theirs in zip(steps, expected, strict=False):
                np.testing.assert_array_equal(ours.observation["state"], theirs.observation["state"])
                np.testing.assert_array_equal(ours.observation["images/front"], theirs.observation["images/front"])
                np.testing.assert_allclose(2 * ours.executed_action, theirs.proposed_action, atol=1e-6)
                assert ours.rewards["success"] == theirs.rewards["success"]


def test_words_and_depth_of_others_are_left_out(recorded, tmp_path):
    """As LeRobot has them: strings, and depth of one channel in PNG files of 16 bit."""
    _, episodes = recorded
    with EpisodeStore.create(tmp_path / "one", SPEC, {}) as one:
        one.append_episode(episodes[0])
        LeRobot().export(data_set(one, "push"), tmp_path / "there")
    strip("lerobot_v3", tmp_path / "there")
    steps, data = len(episodes[0]), tmp_path / "there/data/chunk-000/file-000.parquet"
    depth = {"bytes": cv2.imencode(".png", np.full((24, 24), 700, np.uint16))[1].tobytes(), "path": None}
    table = parquet.read_table(data)
    table = table.append_column("observation.language", pyarrow.array(["push"] * steps))
    parquet.write_table(table.append_column("observation.images.depth", pyarrow.array([depth] * steps)), data)
    info = json.loads((tmp_path / "there/meta/info.json").read_text())
    info["features"] |= {
        "observation.language": {"dtype": "string", "shape": [1], "names": None},
        "observation.images.depth": {"dtype": "image", "shape": [24, 24, 1], "info": {"is_depth_map": True}},
    }
    (tmp_path / "there/meta/info.json").write_text(json.dumps(info))
    found = LeRobot().load(tmp_path / "there", ForeignConfig(action_low=[-2.0], action_high=[2.0]))
    assert found.metadata["imported"]["left_out"] == ["observation.language", "observation.images.depth"]
    (episode,) = found.episodes()
    assert set(episode.observation) == {"state", "images/front"}
    for row, step in zip(episode.observation["images/front"], episodes[0], strict=False):
        np.testing.assert_array_equal(row, step.observation["images/front"])


def test_damage_is_named(recorded, tmp_path):
    store, _ = recorded
    path = tmp_path / "there"
    LeRobot().export(data_set(store, None), path)
    final = path / "meta/robo_rl/episodes.parquet"
    final.write_bytes(final.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"episodes\.parquet is damaged"):
        list(LeRobot().load(path, ForeignConfig()).episodes())
    info = path / "meta/info.json"
    info.write_text(info.read_text().replace('"v3.0"', '"v1.6"'))
    with pytest.raises(DataError, match=r"version 'v1\.6'; v2\.1 and v3\.0 are read"):
        LeRobot().load(path, ForeignConfig())
    with pytest.raises(DataError, match=r"is no RLDS data set.*it has no features\.json"):
        Rlds().load(path, ForeignConfig())
    Rlds().export(data_set(store, None), tmp_path / "rlds")
    (shard,) = (tmp_path / "rlds").glob("*.tfrecord-00000-of-00001")
    whole = shard.read_bytes()
    for damaged, said in (
        (whole[:-3], "does not fit its checksum; the file is damaged or cut short"),
        (b"\xff" + whole[1:], "length does not fit its checksum"),
        (whole[:100] + bytes([whole[100] ^ 1]) + whole[101:], "does not fit its checksum"),
    ):
        shard.write_bytes(damaged)
        with pytest.raises(DataError, match=said):
            list(Rlds().load(tmp_path / "rlds", ForeignConfig()).episodes())
    with pytest.raises(DataError, match="no TFRecord files of split 'test'"):
        Rlds(split="test").load(tmp_path / "rlds", ForeignConfig())
    (tmp_path / "no.hdf5").write_bytes(b"no")
    with pytest.raises(DataError, match="no HDF5 file"):
        Robomimic().load(tmp_path / "no.hdf5", ForeignConfig())


def test_options_out_of_range_are_named():
    for make, said in (
        (lambda: LeRobot(version="v1"), "format.version"),
        (lambda: LeRobot(images="gif"), "format.images"),
        (lambda: Robomimic(action="best"), "format.action"),
        (lambda: Rlds(action="best"), "format.action"),
        (lambda: Rlds(shard_megabytes=0), "format.shard_megabytes"),
        (lambda: Rlds(last_step="none"), "format.last_step"),
        (lambda: ForeignConfig(source="cat"), "foreign.source"),
        (lambda: ForeignConfig(action_low=[0.0]), "foreign.action_high"),
    ):
        with pytest.raises(ConfigError, match=said):
            make()


# --- bags ------------------------------------------------------------------------------------------------------------


def test_ros_tools_find_joints_and_wrench_in_a_bag(tmp_path):
    joints = ("arm_1_position", "arm_2_position", "arm_1_velocity", "arm_2_velocity")
    wrench = tuple(f"wrist_{kind}_{axis}" for kind in ("force", "torque") for axis in "xyz")
    spec = dataclasses.replace(SPEC, observation={"state": ArraySpec((10,), names=(*joints, *wrench))})
    store, episodes = record(tmp_path / "set", spec)
    with store:
        Rosbag().export(data_set(store, None), tmp_path / "bag")
    with AnyReader([tmp_path / "bag"]) as bag:
        kinds = {connection.topic: connection.msgtype for connection in bag.connections}
        assert (kinds["/joint_states"], kinds["/wrench"]) == ("sensor_msgs/msg/JointState", WRENCH)
        states = [episodes[0][0].observation["state"], episodes[0][1].observation["state"]]
        stamps = []
        for topic, check in (("/joint_states", lambda m: m.velocity), ("/wrench", lambda m: [m.wrench.torque.z])):
            found = list(bag.messages([c for c in bag.connections if c.topic == topic]))
            assert len(found) == sum(LENGTHS) + 3
            for (connection, at_ns, data), state in zip(found, states, strict=False):
                message = bag.deserialize(data, connection.msgtype)
                assert at_ns == message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
                np.testing.assert_array_equal(check(message), state[2:4] if topic == "/joint_states" else state[9:])
            stamps.append([at_ns for _, at_ns, _ in found])
        assert stamps[0] == stamps[1] == sorted(set(stamps[0]))


TOPICS = {
    "joints": TopicConfig(topic="joint_states", gives="state", fields=("position", "velocity"), names=("a", "b")),
    "camera": TopicConfig(topic="/front/image_raw", gives="images/front"),
    "command": TopicConfig(topic="cmd_vel", gives="action", fields=("linear.x", "angular.z")),
}


def test_bags_of_robots_become_episodes(tmp_path):
    write_bag(tmp_path / "bags/first")
    write_bag(tmp_path / "bags/second", seconds=0.5)
    config = ForeignConfig(task="drive", control_rate=10.0, action_low=[0.0, -2.0], action_high=[2.0, 0.0])
    data = Rosbag(topics=TOPICS).load(tmp_path / "bags", config)
    assert data.spec.observation["state"].names == ("a_position", "b_position", "a_velocity", "b_velocity")
    assert data.spec.action.names == ("linear.x", "angular.z")
    first, second = data.episodes()
    # Both topics reach 0.96 s and 0.48 s: nine steps of a tenth of a second, and four.
    assert (first.record.steps, second.record.steps) == (9, 4)
    for k in range(10):
        t = k / 10
        np.testing.assert_allclose(first.observation["state"][k], [10 + t, 20 + t, -10 - t, -20 - t], atol=1e-6)
        seen = int(t * 25 + 1e-9) / 25
        np.testing.assert_array_equal(first.observation["images/front"][k, 0, 0], [2, 1, round(100 * seen)])
    # A command is the newest at the end of its period: 0.1 s becomes 2 * 0.1 / 2 - 1.
    ends = np.arange(1, 10) / 10
    np.testing.assert_allclose(first.executed_action, np.stack([ends - 1, 1 - ends], 1), atol=1e-6)
    assert first.truncated.tolist() == [False] * 8 + [True] and not first.terminated.any()
    assert first.stamp_ns[0] == 10**15
    with EpisodeStore.create(tmp_path / "set", data.spec, data.metadata) as store:
        for episode in data.episodes():
            store.append_episode(episode.transitions())


def test_what_a_bag_lacks_is_named(tmp_path):
    write_bag(tmp_path / "bag", gap=(0.4, 0.7))
    config = ForeignConfig(control_rate=10.0, action_low=[0.0, -2.0], action_high=[2.0, 0.0])
    with pytest.raises(DataError, match=r"/joint_states is silent for 0\.\d+ s, 0\.\d0 s after the begin"):
        list(Rosbag(topics=TOPICS).load(tmp_path / "bag", config).episodes())
    with pytest.raises(ConfigError, match=r"format\.topics"):
        Rosbag().load(tmp_path / "bag", config)
    with pytest.raises(ConfigError, match=r"foreign\.control_rate"):
        Rosbag(topics=TOPICS).load(tmp_path / "bag", ForeignConfig())
    other = {**TOPICS, "force": TopicConfig(topic="wrench", gives="state", fields=("wrench.force.x",))}
    with pytest.raises(DataError, match="has no topic /wrench"):
        Rosbag(topics=other).load(tmp_path / "bag", config)
    wrong = {**TOPICS, "joints": TopicConfig(topic="joint_states", gives="state", fields=("torque",))}
    with pytest.raises(DataError, match="no numbers 'torque'"):
        Rosbag(topics=wrong).load(tmp_path / "bag", config)
    with pytest.raises(DataError, match="no bag of rosbag2"):
        Rosbag(topics=TOPICS).load(tmp_path / "bag/none", config)
    (tmp_path / "notes.txt").write_text("no bag\n")
    with pytest.raises(DataError, match=r"notes\.txt is no bag, or damaged"):
        list(Rosbag(topics=TOPICS).load(tmp_path / "notes.txt", config).episodes())


# --- RLDS of others --------------------------------------------------------------------------------------------------


def write_rlds(path, features, episodes):
    """Write episodes (columns by flat name) as somebody else's builder would."""
    path.mkdir()
    (path / "features.json").write_text(features_json(features))
    with (path / "others-train.tfrecord-00000-of-00001").open("wb") as stream:
        for columns in episodes:
            append_record(stream, encode_example({name: features[name].encode(rows) for name, rows in columns.items()}))


def test_rlds_of_others_with_an_action_in_the_last_step(tmp_path):
    features = {
        "steps/observation/state": Feature("tensor", (2,), "float64"),
        "steps/observation/image": Feature("image", (None, None, 3), "uint8"),
        "steps/observation/depth": Feature("image", (4, 4, 1), "uint16"),
        "steps/observation/natural_language_instruction": Feature("text"),
        "steps/action": Feature("tensor", (1,), "float32"),
        "steps/reward": Feature("tensor"),
        "steps/is_terminal": Feature("tensor", (), "bool"),
    }
    random = np.random.default_rng(0)
    states = random.standard_normal((3, 2)).astype(np.float32)
    pictures = random.integers(0, 256, (3, 6, 5, 3), np.uint8)
    columns = {
        "steps/observation/state": states,
        "steps/observation/image": pictures,
        "steps/observation/natural_language_instruction": ["open it"] * 3,
        "steps/action": np.array([[0.1], [0.2], [0.3]], np.float32),
        "steps/reward": np.array([0, 0, 1], np.float32),
        "steps/is_terminal": np.array([False, False, True]),
    }
    write_rlds(tmp_path / "set", features, [columns])
    config = ForeignConfig(control_rate=5.0)
    data = Rlds(last_step="action").load(tmp_path / "set", config)
    assert data.instructions == ["open it"]
    assert data.spec.observation == {"state": ArraySpec((2,)), "images/image": ArraySpec((6, 5, 3), "uint8")}
    assert data.metadata["imported"]["left_out"] == [
        "steps/observation/depth",
        "steps/observation/natural_language_instruction",
    ]
    (episode,) = data.episodes()
    steps = episode.transitions()
    assert [step.rewards["reward"] for step in steps] == [0, 0, 1] and steps[-1].terminated
    np.testing.assert_array_equal(episode.executed_action[:, 0], np.float32([0.1, 0.2, 0.3]))
    np.testing.assert_array_equal(episode.observation["images/image"], pictures[[0, 1, 2, 2]])
    (episode,) = Rlds().load(tmp_path / "set", config).episodes()
    assert episode.record.steps == 2, "as RLDS has it, the last step is the final observation"
    np.testing.assert_array_equal(episode.observation["state"], states)
    with pytest.raises(ConfigError, match=r"foreign\.control_rate"):
        Rlds().load(tmp_path / "set", ForeignConfig())
    del features["steps/action"], columns["steps/action"]
    write_rlds(tmp_path / "still", features, [columns])
    with pytest.raises(DataError, match="expected observations and actions of one row of numbers"):
        Rlds().load(tmp_path / "still", config)


# --- the readers of others, where they are installed -----------------------------------------------------------------


def test_lerobot_reads_what_is_exported(recorded, tmp_path):
    lerobot = pytest.importorskip("lerobot.datasets.lerobot_dataset")
    store, episodes = recorded
    version = lerobot.CODEBASE_VERSION
    LeRobot(version=version).export(data_set(store, None), tmp_path / "set")
    read = lerobot.LeRobotDataset("local/set", root=tmp_path / "set")
    steps = [(step, told) for episode, told in zip(episodes, TOLD["instructions"], strict=True) for step in episode]
    assert (len(read), read.num_episodes, read.fps) == (20, 3, 10)
    for index, (step, told) in enumerate(steps):
        frame = read[index]
        assert frame["task"] == told
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
    for found, steps, told in zip(read, episodes, TOLD["instructions"], strict=True):
        rows = list(found["steps"].as_numpy_iterator())
        assert [bool(row["is_last"]) for row in rows] == [False] * len(steps) + [True]
        assert bool(rows[-1]["is_terminal"]) == steps[-1].terminated
        observations = [*(step.observation for step in steps), steps[-1].next_observation]
        for row, observation in zip(rows, observations, strict=True):
            assert row["language_instruction"].decode() == told
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

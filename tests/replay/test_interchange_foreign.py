"""Imports of files that somebody else wrote."""

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
from robo_rl.core import ArraySpec, ConfigError, DataError
from robo_rl.replay import EpisodeStore
from robo_rl.replay.interchange import ForeignConfig, LeRobot, Rlds, Rosbag
from robo_rl.replay.interchange.rlds_layout import Feature, features_json
from robo_rl.replay.interchange.rosbag import WRENCH
from robo_rl.replay.interchange.rosbag_topics import TopicConfig
from robo_rl.replay.interchange.tfrecord import append_record, encode_example

from ..rigs.bags import write_bag
from ..rigs.interchange import FILES, FORMATS, LENGTHS, record
from ..rigs.replay_episodes import SPEC


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
    data = FORMATS[name].load(tmp_path / "there", config)
    assert (data.spec.control_rate, data.spec.reward_terms, data.spec.action_space) == (
        10.0,
        ("success",),
        "end_effector_delta",
    )
    assert data.spec.extra == {"translation_scale": 0.01, "action_low": [-2, -2], "action_high": [2, 2]}
    assert data.instructions[0] == "put the cube away"
    with EpisodeStore.create(tmp_path / "imported", data.spec, data.metadata) as imported:
        for read, expected in zip(data.episodes(), episodes, strict=True):
            ended = expected[-1].terminated
            whole = ended or has_final_observations
            steps = read.transitions()
            assert len(steps) == read.record.steps == len(expected) - (not whole)
            if not steps:  # Of a single frame, and the final observation was not recorded.
                continue
            imported.append_episode(steps)
            assert (steps[-1].terminated, steps[-1].truncated) == (ended, not ended)
            for actual, wanted in zip(steps, expected, strict=False):
                np.testing.assert_array_equal(actual.observation["state"], wanted.observation["state"])
                np.testing.assert_array_equal(actual.observation["images/front"], wanted.observation["images/front"])
                np.testing.assert_allclose(2 * actual.executed_action, wanted.proposed_action, atol=1e-6)
                assert actual.rewards["success"] == wanted.rewards["success"]


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
    write_bag(tmp_path / "bag")
    config = ForeignConfig(control_rate=10.0, action_low=[0.0, -2.0], action_high=[2.0, 0.0])
    with pytest.raises(ConfigError, match=r"format\.topics"):
        Rosbag().load(tmp_path / "bag", config)
    with pytest.raises(ConfigError, match=r"foreign\.control_rate"):
        Rosbag(topics=TOPICS).load(tmp_path / "bag", ForeignConfig())
    other = {**TOPICS, "force": TopicConfig(topic="wrench", gives="state", fields=("wrench.force.x",))}
    with pytest.raises(DataError, match="has no topic /wrench"):
        Rosbag(topics=other).load(tmp_path / "bag", config)
    wrong = {**TOPICS, "joints": TopicConfig(topic="joint_states", gives="state", fields=("torque",))}
    with pytest.raises(DataError, match="its messages have no numbers 'torque'"):
        Rosbag(topics=wrong).load(tmp_path / "bag", config)
    with pytest.raises(DataError, match="not a rosbag2 bag"):
        Rosbag(topics=TOPICS).load(tmp_path / "bag/none", config)
    (tmp_path / "notes.txt").write_text("no bag\n")
    with pytest.raises(DataError, match=r"notes\.txt is not a bag, or is damaged"):
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
    with pytest.raises(DataError, match="expected observations and actions that are vectors of numbers"):
        Rlds().load(tmp_path / "still", config)


# --- the readers of others, where they are installed -----------------------------------------------------------------


def test_joints_that_are_observed_by_sine_and_cosine_have_positions_in_a_bag(tmp_path):
    joints = ("arm_1_position", "arm_2_sin", "arm_2_cos", "arm_1_velocity", "arm_2_velocity")
    store, episodes = record(
        tmp_path / "set", dataclasses.replace(SPEC, observation={"state": ArraySpec((5,), names=joints)})
    )
    with store:
        Rosbag().export(data_set(store, None), tmp_path / "bag")
    with AnyReader([tmp_path / "bag"]) as bag:
        (connection,) = (connection for connection in bag.connections if connection.topic == "/joint_states")
        _, _, data = next(iter(bag.messages([connection])))
        message = bag.deserialize(data, connection.msgtype)
    state = episodes[0][0].observation["state"]
    assert message.name == ["arm_1", "arm_2"]
    np.testing.assert_allclose(message.position, [state[0], np.arctan2(state[1], state[2])], rtol=1e-6)

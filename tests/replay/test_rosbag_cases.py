"""Bags as people report them: read whole and by names, or refused by file, topic, time and cause."""

import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf
from rosbags.rosbag2 import Reader
from rosbags.typesys import get_types_from_msg

from robo_rl.cli import main
from robo_rl.commands.export import data_set
from robo_rl.core import ConfigError, DataError
from robo_rl.replay import EpisodeStore
from robo_rl.replay.interchange import ForeignConfig, Rosbag
from robo_rl.replay.interchange.rosbag_messages import TopicConfig

from ..rigs.bags import START, TYPES, image, joint_state, number, record_messages

CASES = Path(__file__).parents[1] / "data/cases/rosbag"
JOINTS = ("shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint")
STATE = TopicConfig(topic="joints", gives="state", fields=("position",))
COMMAND = TopicConfig(topic="command", gives="action", fields=("data",))


def case_topics(name):
    topics = OmegaConf.load(CASES / f"cfg/format/{name}.yaml").topics
    return {key: TopicConfig(**{**topic, "fields": tuple(topic.get("fields", ()))}) for key, topic in topics.items()}


def load(path, *topics, incomplete=False, **options):
    """Read bags; return their episodes and what is said of them."""
    config = ForeignConfig(**{"control_rate": 10.0, **options})
    data = Rosbag(topics=dict(enumerate(topics)), incomplete=incomplete).load(path, config)
    return list(data.episodes()), data.notes.lines()


def run_import(name, path, output, *options):
    """Run robo-rl import with a configuration of the cases; return the exit code."""
    words = ["import", "--config-dir", str(CASES / "cfg"), f"path={path}", f"output={output}", f"format={name}"]
    with pytest.raises(SystemExit) as end:
        main([*words, "foreign.control_rate=10", *options])
    return end.value.code or 0


def joints(names=("a", "b"), count=50, position=None):
    """Return messages of joints at 50 Hz, and of commands."""
    states = [("/joints", n / 50, joint_state(names, position or [n] * len(names))) for n in range(count)]
    return sorted(states + commands(count / 50), key=lambda message: message[1])


def commands(seconds=1.0):
    return [("/command", n / 50 + 0.001, number(0.5)) for n in range(round(50 * seconds))]


# --- containers ------------------------------------------------------------------------------------------------------


def test_what_a_killed_recorder_left_in_the_log_of_sqlite_is_read(tmp_path, capsys):
    shutil.copytree(CASES / "wal_db3", tmp_path / "bag")
    before = {file.name: file.read_bytes() for file in (tmp_path / "bag").iterdir()}
    assert run_import("lab", tmp_path / "bag", tmp_path / "set") == 0
    output = capsys.readouterr().out
    assert "SQLite files with a log that the recorder had not merged; the log was read too: 1 (" in output
    assert "/joint_states has 150 messages, but 75 according to the metadata" in output
    with EpisodeStore.open(tmp_path / "set") as store:
        assert [record.steps for record in store.records] == [29]
    assert {file.name: file.read_bytes() for file in (tmp_path / "bag").iterdir()} == before, "nothing is changed"
    episodes, _ = load(tmp_path / "bag/wal_db3.db3", *case_topics("lab").values())  # the file alone, too
    assert [episode.record.steps for episode in episodes] == [29]
    (tmp_path / "bag/wal_db3.db3-wal").unlink()
    assert load(tmp_path / "bag", *case_topics("lab").values())[0][0].record.steps == 14  # as the metadata says


def test_an_unfinished_change_of_sqlite_is_undone(tmp_path):
    """A journal holds the pages as they were before a change that a killed recorder did not finish."""
    path = record_messages(tmp_path / "bag", joints(), "SQLITE3")
    database = path / "bag.db3"
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("PRAGMA cache_size=2")
    connection.execute("BEGIN")
    connection.execute("DELETE FROM messages WHERE id > 10")
    journal = Path(f"{database}-journal").read_bytes()
    changed = database.read_bytes()
    connection.execute("ROLLBACK")
    connection.close()
    database.write_bytes(changed)
    Path(f"{database}-journal").write_bytes(journal)
    episodes, lines = load(path, STATE, COMMAND)
    assert [episode.record.steps for episode in episodes] == [9] and "log that the recorder had not merged" in lines[0]


@pytest.mark.parametrize("alone", [False, True])
def test_a_journal_that_names_another_file_is_refused_and_deletes_nothing(tmp_path, alone):
    """SQLite would delete the super-journal that a foreign journal names, which may be any file."""
    path = record_messages(tmp_path / "bag", joints(), "SQLITE3")
    database, precious = path / "bag.db3", tmp_path / "thesis"
    precious.write_text("mine")
    name, magic = str(precious).encode(), bytes.fromhex("d9d505f920a163d7")
    size = int.from_bytes(database.read_bytes()[16:18], "big")
    counts = (0, 0, database.stat().st_size // size, 512, size)
    header = (magic + b"".join(value.to_bytes(4, "big") for value in counts)).ljust(512, b"\0")
    page, total = 0x40000000 // size + 1, sum(name) & 0xFFFFFFFF
    record = page.to_bytes(4, "big") + name + len(name).to_bytes(4, "big") + total.to_bytes(4, "big") + magic
    Path(f"{database}-journal").write_bytes(header + record)
    with pytest.raises(DataError, match=r"bag\.db3-journal: the journal names another file"):
        load(database if alone else path, STATE, COMMAND)
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("storage", ["MCAP", "SQLITE3"])
@pytest.mark.parametrize("change", [-3, 3], ids=["fewer", "more"])
def test_messages_are_counted(tmp_path, storage, change):
    path = record_messages(tmp_path / "bag", joints(), storage)
    metadata = path / "metadata.yaml"
    metadata.write_text(metadata.read_text().replace("message_count: 50", f"message_count: {50 + change}"))
    message = (
        rf"has 50 messages, but {50 + change} according to the metadata: a part is missing.*format\.incomplete=true"
    )
    with pytest.raises(DataError, match=message):
        load(path, STATE, COMMAND)
    episodes, lines = load(path, STATE, COMMAND, incomplete=True)
    assert episodes[0].record.steps == 9
    assert lines[0].startswith("Topics whose number of messages differs from the stated one: 2 (")


def test_a_file_that_lacks_rows_is_refused(tmp_path):
    path = record_messages(tmp_path / "bag", joints(), "SQLITE3")
    with sqlite3.connect(path / "bag.db3") as database:
        database.execute("DELETE FROM messages WHERE id % 7 = 0")
    database.close()
    with pytest.raises(DataError, match=r"/command has \d+ messages, but 50 according to the metadata"):
        load(path, STATE, COMMAND)


def split(path, parts):
    """Record a bag in two files; return its folder."""
    half = len(parts) // 2
    record_messages(path, parts[:half], "SQLITE3")
    record_messages(path.parent / "rest", parts[half:], "SQLITE3")
    shutil.move(path.parent / "rest/rest.db3", path / "rest.db3")
    shutil.rmtree(path.parent / "rest")
    metadata = path / "metadata.yaml"
    text = metadata.read_text().replace("  - bag.db3\n", "  - bag.db3\n  - rest.db3\n")
    metadata.write_text(text.replace("message_count: 25", "message_count: 50"))
    return path


def test_all_files_of_a_bag_are_read(tmp_path):
    path = split(tmp_path / "bag", joints())
    assert load(path, STATE, COMMAND)[0][0].record.steps == 9
    metadata = path / "metadata.yaml"
    whole = metadata.read_text()
    metadata.write_text(whole.replace("  - bag.db3\n  - rest.db3\n", "  - rest.db3\n  - bag.db3\n"))
    assert load(path, STATE, COMMAND)[0][0].record.steps == 9, "in whatever order they are listed"
    metadata.write_text(whole.replace("  - rest.db3\n", ""))
    with pytest.raises(DataError, match=r"rest\.db3 is in the bag, but metadata\.yaml does not list it"):
        load(path, STATE, COMMAND)
    metadata.write_text(whole.replace("  - rest.db3\n", "  - bag.db3\n"))
    with pytest.raises(DataError, match=r"lists bag\.db3 twice"):
        load(path, STATE, COMMAND)
    metadata.write_text(whole)
    (path / "rest.db3").unlink()
    with pytest.raises(DataError, match=r"rest\.db3"):
        load(path, STATE, COMMAND)


def test_a_folder_of_bags_is_read_whole(tmp_path):
    for name in ("first", "monday/second"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        record_messages(tmp_path / name, joints())
    assert len(load(tmp_path, STATE, COMMAND)[0]) == 2
    record_messages(tmp_path / "third", joints())
    (tmp_path / "third/metadata.yaml").unlink()
    with pytest.raises(DataError, match=r"third has files of a bag, such as third\.mcap, but no metadata\.yaml"):
        load(tmp_path, STATE, COMMAND)
    assert len(load(tmp_path / "third/third.mcap", STATE, COMMAND)[0]) == 1


def without_index(path):
    """Remove the summary of an MCAP file, and the indices of its chunks, as some writers leave them out."""
    (file,) = path.glob("*.mcap")
    data = file.read_bytes()
    position, kept = 8, data[:8]
    while data[position] != 0x0F:  # up to the end of the data
        end = position + 9 + int.from_bytes(data[position + 1 : position + 9], "little")
        kept += data[position:end] if data[position] != 0x07 else b""
        position = end
    end = data[position : position + 13]
    file.write_bytes(kept + end + b"\x02\x14" + bytes(7 + 20) + data[-8:])
    return path


def test_an_mcap_file_without_an_index_is_read(tmp_path):
    random = np.random.default_rng(0)
    messages = joints()
    mixed = [messages[index] for index in random.permutation(len(messages))]
    for name, rows in (("in order", messages), ("in none", mixed)):
        path = without_index(record_messages(tmp_path / name, rows))
        with Reader(path) as reader:
            assert reader.message_count == 100
        assert load(path, STATE, COMMAND)[0][0].record.steps == 9


def test_an_mcap_file_that_was_not_finished_is_refused(tmp_path):
    path = record_messages(tmp_path / "bag", joints())
    (file,) = path.glob("*.mcap")
    file.write_bytes(file.read_bytes()[:-400])
    with pytest.raises(DataError, match=r"bag is not a bag, or is damaged or unfinished .*mcap recover"):
        load(path, STATE, COMMAND)


@pytest.mark.parametrize("storage", ["MCAP", "SQLITE3"])
@pytest.mark.parametrize("mode", ["FILE", "MESSAGE", "STORAGE"])
def test_compressed_bags_are_read_and_counted(tmp_path, storage, mode):
    if (storage, mode) == ("SQLITE3", "STORAGE"):
        pytest.skip("SQLite has no compression of its own")
    path = record_messages(tmp_path / "bag", joints(), storage, compression=mode)
    assert load(path, STATE, COMMAND)[0][0].record.steps == 9
    metadata = path / "metadata.yaml"
    metadata.write_text(metadata.read_text().replace("message_count: 50", "message_count: 51"))
    with pytest.raises(DataError, match="has 50 messages, but 51 according to the metadata"):
        load(path, STATE, COMMAND)


def test_a_message_that_cannot_be_decoded_is_named(tmp_path):
    path = record_messages(tmp_path / "bag", joints(), "SQLITE3")
    with sqlite3.connect(path / "bag.db3") as database:
        database.execute("UPDATE messages SET data = x'00010000ff' WHERE id = 7")
    database.close()
    with pytest.raises(
        DataError,
        match=r"bag: message 4 of /joints is not a sensor_msgs/msg/JointState as defined by",
    ):
        load(path, STATE, COMMAND)


def test_other_bags_than_can_be_read_together_are_refused(tmp_path, recorded):
    Rosbag().export(data_set(recorded[0], None), tmp_path / "bags/exported")
    record_messages(tmp_path / "bags/recorded", joints())
    with pytest.raises(DataError, match=r"has 2 bags, but robo-rl wrote .*exported: import it alone"):
        load(tmp_path / "bags", STATE, COMMAND)
    (tmp_path / "old.bag").write_bytes(b"#ROSBAG V2.0\n")
    with pytest.raises(DataError, match=r"is a bag of ROS 1: rosbags-convert --src"):
        load(tmp_path / "old.bag", STATE, COMMAND)


# --- images ----------------------------------------------------------------------------------------------------------


def with_camera(path, encoding, bytes_a_pixel):
    rows = np.full((16, 24 * bytes_a_pixel), 128, np.uint8)
    pictures = [("/camera", n / 25, image(encoding, 16, 24, rows)) for n in range(25)]
    return record_messages(path, sorted(joints() + pictures, key=lambda message: message[1]))


CAMERA = TopicConfig(topic="camera", gives="images/front", fields=(), max_age=0.2)


@pytest.mark.parametrize("encoding", ["yuv422_yuy2", "yuyv", "uyvy", "yuv422"])
def test_yuv_images_of_bags_are_read(tmp_path, encoding):
    ((episode,), _) = load(with_camera(tmp_path / "bag", encoding, 2), STATE, COMMAND, CAMERA)
    frames = episode.observation["images/front"]
    assert frames.shape[1:] == (16, 24, 3) and len(frames) == episode.record.steps + 1
    assert (np.abs(frames.astype(int) - 130) < 3).all(), "128 is a little less than half of what video calls white"


def test_a_recorded_bag_with_yuv_images_is_imported(tmp_path, capsys):
    assert run_import("cam", CASES / "cam_yuv", tmp_path / "set") == 0
    assert "1 episode: 29 steps" in capsys.readouterr().out
    with EpisodeStore.open(tmp_path / "set") as store:
        frames = store.arrays(0).observation["images/front"]
    assert frames.dtype == np.uint8 and frames.shape[-1] == 3 and frames.std() > 0


@pytest.mark.parametrize("encoding", ["nv21", "yuv420", "h264"])
def test_images_that_are_not_read_are_named(tmp_path, encoding):
    message = rf"/camera .*unknown encoding '{encoding}' of an image of 24 x 16 pixels; .*Valid: 16UC1, .*yuv422"
    with pytest.raises(DataError, match=message):
        load(with_camera(tmp_path / "bag", encoding, 2), STATE, COMMAND, CAMERA)


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("configuration", ["noname", "lab"])
def test_joints_are_found_by_name_whatever_their_order(configuration):
    (episode,), _ = load(CASES / "shuffled", *case_topics(configuration).values())
    names = tuple(f"{joint}_{kind}" for kind in ("position", "velocity") for joint in JOINTS)
    data = Rosbag(topics=case_topics(configuration)).load(CASES / "shuffled", ForeignConfig(control_rate=10.0))
    assert data.spec.observation["state"].names == names
    times = np.arange(30) / 10
    expected = np.stack([0.1 * times, np.ones(30), -0.1 * times, *(np.full(30, v) for v in (0.1, 0, -0.1))], 1)
    np.testing.assert_allclose(episode.observation["state"], expected, atol=1e-6)


def test_a_gripper_on_the_topic_of_its_arm_is_passed_over(tmp_path, capsys):
    assert run_import("lab", CASES / "gripper_in_turn", tmp_path / "set") == 0
    output = capsys.readouterr().out
    assert "Messages that name none of the requested joints, skipped: 1 (" in output
    assert "150 of /joint_states name finger_joint" in output
    with EpisodeStore.open(tmp_path / "set") as store:
        assert store.records[0].steps == 29
    with pytest.raises(
        DataError, match=r"/joint_states .* at .* expected shoulder_pan_joint, .*, got finger_joint; set names"
    ):
        load(CASES / "gripper_in_turn", *case_topics("noname").values())


@pytest.mark.parametrize("names", [(), ("a", "b")])
@pytest.mark.parametrize("field", ["position", "velocity"])
def test_the_order_of_names_may_change_with_every_message(tmp_path, names, field):
    random = np.random.default_rng(0)
    messages = commands()
    for n in range(50):
        order = ["a", "b"] if n == 0 else list(random.permutation(["a", "b"]))
        values = [{"a": n, "b": -n}[name] for name in order]
        messages.append(("/joints", n / 50, joint_state(order, values, velocity=values)))
    path = record_messages(tmp_path / "bag", sorted(messages, key=lambda message: message[1]))
    topic = TopicConfig(topic="joints", gives="state", fields=(field,), names=names)
    (episode,), _ = load(path, topic, COMMAND)
    ticks = np.arange(0, 50, 5)
    np.testing.assert_array_equal(episode.observation["state"], np.stack([ticks, -ticks], 1))


def test_names_of_actions_are_followed_too(tmp_path):
    """As of a JointJog, which calls them joint_names."""
    if "lab_msgs/msg/Jog" not in TYPES.types:
        TYPES.register(get_types_from_msg("string[] joint_names\nfloat64[] velocities", "lab_msgs/msg/Jog"))
    jog = TYPES.types["lab_msgs/msg/Jog"]
    messages = joints()
    for n in range(50):
        order, values = (["y", "x"], [0.9, 0.1]) if n % 2 else (["x", "y"], [0.1, 0.9])
        messages.append(("/jog", n / 50 + 0.002, jog(joint_names=order, velocities=np.array(values))))
    path = record_messages(tmp_path / "bag", sorted(messages, key=lambda message: message[1]))
    topic = TopicConfig(topic="jog", gives="action", fields=("velocities",))
    (episode,), _ = load(path, STATE, topic)
    np.testing.assert_allclose(episode.executed_action, [[0.1, 0.9]] * len(episode.executed_action), atol=1e-6)


@pytest.mark.parametrize(
    ("bad", "names", "message"),
    [
        (joint_state(["a", "a"], [0, 0]), (), "a name occurs twice in a, a"),
        (joint_state(["a"], [0]), (), "expected b, got a; set names"),
        (joint_state(["a", "b", "c"], [0, 0, 0]), (), "expected a, b, got a, b, c; set names"),
        (joint_state(["a", "b"], []), (), "expected 2 values in 'position', one per name, got 0"),
        (joint_state(["a", "c"], [0, 0]), ("a", "b"), "expected b, got a, c; if several messages name"),
        (joint_state(["b"], [0]), ("a", "b"), "expected a, got b; .* give each part its own entry in format.topics"),
        (joint_state(["a", "b"], [0, np.inf]), ("a", "b"), r"b_position is inf; expected finite numbers"),
        (joint_state([], [0, 0]), (), r"expected 2 numbers \(a_position, b_position\), got position_0, position_1"),
    ],
)
def test_what_is_wrong_with_a_message_is_said_with_topic_and_time(tmp_path, bad, names, message):
    path = record_messages(tmp_path / "bag", [*joints(), ("/joints", 1.25, bad)])
    topic = TopicConfig(topic="joints", gives="state", fields=("position",), names=names)
    with pytest.raises(
        DataError, match=rf"bag: /joints \(sensor_msgs/msg/JointState\) at {START / 1e9 + 1.25:.3f} s: .*{message}"
    ):
        load(path, topic, COMMAND)


@pytest.mark.parametrize("found", [("left/a", "left/b"), ("A", "B"), ("gripper",)])
def test_joints_under_other_names_are_named(tmp_path, found):
    path = record_messages(tmp_path / "bag", joints(found))
    topic = TopicConfig(topic="joints", gives="state", fields=("position",), names=("a", "b"))
    with pytest.raises(DataError, match=rf"no message on /joints that names any of a, b; they name {', '.join(found)}"):
        load(path, topic, COMMAND)


def test_joints_that_several_messages_name_in_parts_are_topics_of_their_own(tmp_path):
    states = [
        ("/joints", n / 50, joint_state(name, [value])) for n in range(50) for name, value in (("a", 1), ("b", 2))
    ]
    path = record_messages(tmp_path / "bag", sorted(states + commands(), key=lambda message: message[1]))
    parts = [TopicConfig(topic="joints", gives="state", fields=("position",), names=(name,)) for name in "ab"]
    (episode,), _ = load(path, *parts, COMMAND)
    np.testing.assert_array_equal(episode.observation["state"], [[1, 2]] * 10)


def test_values_that_are_not_finite_end_an_episode_on_request(tmp_path):
    messages = joints(count=100)
    messages[100] = ("/joints", messages[100][1], joint_state(["a", "b"], [1, np.nan]))
    path = record_messages(tmp_path / "bag", messages)
    episodes, _ = load(path, STATE, COMMAND, faults="cut")
    assert sum(episode.record.steps for episode in episodes) in (17, 19)
    with pytest.raises(DataError, match=r"at 1000000001\.000 s: b_position is nan; expected finite"):
        load(path, STATE, COMMAND)
    assert [episode.record.episode for episode in episodes] == list(range(len(episodes)))


def test_a_mapping_that_cannot_be_is_refused(tmp_path):
    path = record_messages(tmp_path / "bag", joints())
    with pytest.raises(ConfigError, match=r"reward is one number, but its topics give 2: a_position, b_position"):
        load(path, STATE, COMMAND, TopicConfig(topic="joints", gives="reward", fields=("position",)))
    named = TopicConfig(topic="command", gives="action", fields=("data",), names=("a",))
    with pytest.raises(DataError, match="its messages do not name the elements of 'data'; leave out names"):
        load(path, STATE, named)
    with pytest.raises(DataError, match="its messages have no numbers 'datum', only data"):
        load(path, STATE, TopicConfig(topic="command", gives="action", fields=("datum",)))
    with pytest.raises(ConfigError, match="different names"):
        TopicConfig(topic="joints", gives="state", fields=("position",), names=("a", "a"))


def test_actions_beyond_the_limits_are_named_or_clipped(tmp_path):
    high = [("/command", t, number(1.5)) for topic, t, _ in joints() if topic == "/command" and 0.45 < t < 0.55]
    messages = [message for message in joints() if message[:2] not in [each[:2] for each in high]]
    path = record_messages(tmp_path / "bag", sorted(messages + high, key=lambda message: message[1]))
    refusal = r"bag, from 1000000000\.001 s on: episode 0: 'action' of frame 4 is 1\.5 in element 0.*foreign\.clip=true"
    with pytest.raises(DataError, match=refusal):
        load(path, STATE, COMMAND)
    episodes, lines = load(path, STATE, COMMAND, clip=True)
    assert episodes[0].executed_action[4] == 1 and "clipped: 1 (0: 1 actions)" in lines[0]


# --- success ---------------------------------------------------------------------------------------------------------


def test_success_that_is_told_at_the_end_is_that_of_the_last_step(tmp_path, capsys):
    assert run_import("succ", CASES / "success_at_end", tmp_path / "set") == 0
    assert "1 episode, 1 successful" in capsys.readouterr().out
    with EpisodeStore.open(tmp_path / "set") as store:
        assert [step.success for step in store.episode(0)] == [None] * 28 + [True]


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([(0.95, 1)], [-1] * 8 + [1]),
        ([(1.5, 1)], [-1] * 8 + [1]),
        ([(0.0, 0), (0.52, 1)], [0, -1, -1, -1, -1, 1, -1, -1, -1]),
        ([(n / 20, n > 14) for n in range(30)], [0] * 7 + [1] * 2),
        ([(0.2, 1), (3.0, 0)], [-1, 1, 1, -1, -1, -1, -1, -1, 0]),
    ],
    ids=["at the end", "after the end", "now and then", "all the time", "taken back"],
)
def test_success_is_unknown_where_nothing_says_it(tmp_path, reports, expected):
    messages = [*joints(), *(("/success", t, number(value)) for t, value in reports)]
    topic = TopicConfig(topic="success", gives="success", fields=("data",), max_age=0.11)
    (episode,), _ = load(record_messages(tmp_path / "bag", messages), STATE, COMMAND, topic)
    assert episode.success.tolist() == expected


def test_an_episode_of_which_nothing_says_success_is_counted(tmp_path):
    messages = [*joints(), ("/success", 0.1, number(1))]
    topic = TopicConfig(topic="success", gives="success", fields=("data",), max_age=0.05)
    (episode,), lines = load(record_messages(tmp_path / "bag", messages), STATE, COMMAND, topic)
    assert lines == [] and episode.success[0] == 1 and episode.record.success is None


@pytest.mark.parametrize("name", ["metadata.yaml", "bag.db3", "extra.mcap"])
def test_what_is_no_regular_file_is_not_waited_for(tmp_path, name):
    path = record_messages(tmp_path / "bag", joints(), "SQLITE3")
    (path / name).unlink(missing_ok=True)
    os.mkfifo(path / name)
    with pytest.raises(DataError, match=rf"{name}.*not a regular file"):
        load(path, STATE, COMMAND)


@pytest.mark.parametrize("value", [0.5, 0.51, 2, -1, float("nan")])
def test_success_that_is_no_flag_is_refused_by_its_time(tmp_path, value):
    messages = [*joints(), ("/success", 0.1, number(value))]
    topic = TopicConfig(topic="success", gives="success", fields=("data",))
    with pytest.raises(DataError, match=r"/success \(std_msgs/msg/Float64\) at .*data is "):
        load(record_messages(tmp_path / "bag", messages), STATE, COMMAND, topic)


def test_whole_numbers_that_are_rounded_are_said(tmp_path):
    def counts(value):
        return [("/count", n / 50, TYPES.types["std_msgs/msg/UInt64"](data=value + n)) for n in range(50)]

    topic = TopicConfig(topic="count", gives="count", fields=("data",))
    _, lines = load(record_messages(tmp_path / "large", joints() + counts(2**60 + 1)), STATE, COMMAND, topic)
    assert lines == ["Integers too large for float32, rounded: 1 (/count: data)"]
    _, lines = load(record_messages(tmp_path / "small", joints() + counts(0)), STATE, COMMAND, topic)
    assert lines == []

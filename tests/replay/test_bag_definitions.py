"""Message types that bags define: those of ROS 2 are read, and of others what does not cost seconds."""

from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from rosbags.interfaces import MessageDefinition, MessageDefinitionFormat
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from robo_rl.core import DataError
from robo_rl.replay.interchange import ForeignConfig, Rosbag
from robo_rl.replay.interchange.bag_definitions import MessageTypes
from robo_rl.replay.interchange.bag_limits import check_bag_files
from robo_rl.replay.interchange.rosbag_messages import TopicConfig

from ..rigs.bags import START, TYPES, number, record_messages

COMMENT = "# What a field means, at some length, as in the files of ROS 2.\n\n"


def connection(kind, text, digest="", form="MSG"):
    return SimpleNamespace(
        msgtype=kind, msgdef=MessageDefinition(MessageDefinitionFormat[form], text), digest=digest, topic="/a"
    )


@pytest.mark.parametrize("distribution", ["ROS2_FOXY", "ROS2_HUMBLE", "ROS2_JAZZY"])
def test_every_message_of_ros_2_is_read_with_its_comments(distribution):
    store = get_typestore(Stores[distribution])
    for kind in store.types:
        text = store.generate_msgdef(kind, ros_version=2)[0]
        lines = [f"{COMMENT}{line}" if line[:1].islower() else line for line in text.split("\n")]
        types = MessageTypes([connection(kind, "\n".join(lines), store.hash_rihs01(kind))], None, "bag")
        assert types._measure(kind).depth <= 7


@pytest.mark.parametrize(
    "kinds",
    [
        ("nav_msgs/msg/Odometry", "sensor_msgs/msg/Imu", "tf2_msgs/msg/TFMessage", "unique_identifier_msgs/msg/UUID"),
        ("visualization_msgs/msg/MarkerArray", "trajectory_msgs/msg/JointTrajectory", "sensor_msgs/msg/Image"),
    ],
)
def test_messages_of_several_topics_are_decoded(kinds):
    given = [connection(kind, TYPES.generate_msgdef(kind, ros_version=2)[0], TYPES.hash_rihs01(kind)) for kind in kinds]
    types = MessageTypes(given, None, "bag")
    imu = "sensor_msgs/msg/Imu"
    if imu in kinds:
        message = types.decode(b"\x00\x01\x00\x00" + bytes(8) + b"\x01" + bytes(7 + 37 * 8), imu)
        assert message.orientation_covariance.shape == (9,)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("float64[36] covariance\nuint8[16] uuid\nfloat64[1000000] grid\n", True),
        ("string[100] names\nstring[1400] others\n", True),
        ("string[1501] names\n", False),
        ("".join(f"float64 f{n}\n" for n in range(1500)), True),
        ("".join(f"float64 f{n}\n" for n in range(1501)), False),
        ("".join(f"uint8 A{n}=1\n" for n in range(4000)) + "float64 f\n", True),
    ],
)
def test_an_array_of_numbers_is_one_member_and_one_of_texts_is_many(text, read):
    if read:
        MessageTypes([connection("a/msg/A", text)], None, "bag")
    else:
        with pytest.raises(DataError, match="bag: the imported messages have 1501 members"):
            MessageTypes([connection("a/msg/A", text)], None, "bag")


def test_a_hash_of_another_definition_is_refused():
    with pytest.raises(DataError, match=r"a message definition is damaged \(ValueError: hash mismatch: a/msg/A has"):
        MessageTypes([connection("a/msg/A", "float64 data\n", "RIHS01_0")], None, "bag")


def test_a_damaged_definition_is_refused_without_quoting_all_of_it():
    with pytest.raises(DataError, match="a message definition is damaged") as caught:
        MessageTypes([connection("a/msg/A", "float64 data\n" * 1000 + "!\n")], None, "bag")
    assert len(str(caught.value)) < 500


def test_types_that_only_other_topics_have_are_not_looked_at(tmp_path):
    """Nor do they need to be sound: a bag of many packages is read for the few topics that are wanted."""
    writer = Writer(tmp_path / "bag", version=8, storage_plugin=StoragePlugin.MCAP)
    with writer as bag:
        topics = [bag.add_connection(name, "std_msgs/msg/Float64", typestore=TYPES) for name in ("/s", "/c")]
        bag.add_connection("/odd", "a/msg/A", msgdef="no definition\n", rihs01="RIHS01_0")
        bag.add_connection("/long", "a/msg/B", msgdef="string[20000] x\n", rihs01="RIHS01_0")
        for step in range(10):
            for topic in topics:
                data = TYPES.serialize_cdr(number(step / 10), "std_msgs/msg/Float64")
                bag.write(topic, START + step * 10**8, data)
    given = {
        "s": TopicConfig(topic="s", gives="state", fields=("data",)),
        "c": TopicConfig(topic="c", gives="action", fields=("data",)),
    }
    (episode,) = Rosbag(topics=given).load(tmp_path / "bag", ForeignConfig(control_rate=10.0)).episodes()
    assert episode.record.steps == 9
    odd = {**given, "o": TopicConfig(topic="odd", gives="odd", fields=("data",))}
    with pytest.raises(DataError, match="a message definition is damaged"):
        Rosbag(topics=odd).load(tmp_path / "bag", ForeignConfig(control_rate=10.0))


def test_large_messages_of_ros_2_are_read():
    """A million points of a marker, and twenty megabytes of an image with a text."""
    for kind, size in (("visualization_msgs/msg/Marker", 12 * 2**20), ("sensor_msgs/msg/JointState", 20 * 2**20)):
        types = MessageTypes([connection(kind, TYPES.generate_msgdef(kind, ros_version=2)[0])], None, "bag")
        extent = types._measure(kind)
        assert extent.objects + extent.density * size < 2 * 10**6, kind


# --- metadata and profiles -------------------------------------------------------------------------------------------


def split(path, files):
    """Return the metadata of a bag as if it had been split into ``files``."""
    about = yaml.safe_load((path / "metadata.yaml").read_text())
    inner = about["rosbag2_bagfile_information"]
    names = [f"bag_{index}.mcap" for index in range(files)]
    inner["relative_file_paths"] = names
    when = {"starting_time": {"nanoseconds_since_epoch": 0}, "duration": {"nanoseconds": 1}, "message_count": 0}
    inner["files"] = [{"path": name, **when} for name in names]
    topic = inner["topics_with_message_count"][0]
    inner["topics_with_message_count"] += [topic] * 100
    return yaml.safe_dump(about)


def test_a_thousand_files_and_hundreds_of_topics_are_within_the_limits(tmp_path):
    path = record_messages(tmp_path / "bag", [("/a", n / 10, number(n)) for n in range(3)])
    (path / "metadata.yaml").write_text(split(path, 1000))
    check_bag_files(path)
    (path / "metadata.yaml").write_text(split(path, 5000))
    with pytest.raises(DataError, match=r"metadata\.yaml: expected (at most|YAML \(more than 20,000 values)"):
        check_bag_files(path)


@pytest.mark.parametrize("storage", ["MCAP", "SQLITE3"])
def test_profiles_of_several_publishers_are_read(tmp_path, storage):
    path = record_messages(tmp_path / "bag", [(f"/t{n}", n / 10, number(n)) for n in range(300)], storage)
    check_bag_files(path)
    with Reader(path) as bag:
        assert len(bag.connections) == 300


def test_a_bag_that_lists_files_of_another_storage_is_refused(tmp_path):
    path = record_messages(tmp_path / "bag", [("/a", n / 10, number(n)) for n in range(3)])
    about = path / "metadata.yaml"
    text = about.read_text()
    about.write_text(text.replace("storage_identifier: mcap", "storage_identifier: sqlite3"))
    with pytest.raises(DataError, match=r"lists 'bag\.mcap' in a bag of storage sqlite3; expected names .* \.db3"):
        check_bag_files(path)
    about.write_text(text.replace("storage_identifier: mcap", "storage_identifier: leveldb"))
    with pytest.raises(DataError, match="names the storage 'leveldb'; only mcap and sqlite3 are supported"):
        check_bag_files(path)


def test_an_index_that_tells_no_types_is_not_believed(tmp_path):
    """rosbags looks into each chunk then, so the chunks are counted as well."""
    path = record_messages(tmp_path / "bag", [("/a", n / 10, number(n)) for n in range(3)], compression="STORAGE")
    (file,) = path.glob("*.mcap")
    content = bytearray(file.read_bytes())
    begin = int.from_bytes(content[-28:-20], "little")
    assert content[begin] == 3
    content[begin] = 0x7F  # of another kind, which readers pass over
    file.write_bytes(content)
    check_bag_files(path)
    with Reader(path) as bag:
        assert np.sum([connection.msgcount for connection in bag.connections]) == 3

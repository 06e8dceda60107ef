"""Message types of drivers/ros2: making, bytes, hashes, and definitions of a user's own."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct
from rosbags.interfaces import Nodetype
from rosbags.typesys import get_typestore

from robo_rl.core import ConfigError, DriverError
from robo_rl.drivers.ros2.dds.endpoints import DdsRepeater
from robo_rl.drivers.ros2.dds.topic_types import TopicTypes, dds_type_name, ros_type_name
from robo_rl.drivers.ros2.message_types import DISTRIBUTIONS, RosbagsTypes

TYPES = RosbagsTypes("jazzy")


def random_value(types: RosbagsTypes, description: Any, rng: np.random.Generator) -> Any:
    kind, what = description
    if kind == Nodetype.NAME:
        return {field: random_value(types, inner, rng) for field, inner in types.fields(what)}
    if kind == Nodetype.BASE:
        base, bound = what
        if base == "string":
            return "".join(rng.choice(list("aå ß$0"), rng.integers(0, min(bound or 9, 9) // 2 + 1)))
        if base == "bool":
            return bool(rng.integers(2))
        if base.startswith("float"):
            return float(np.float32(rng.normal()))
        limits = np.iinfo({"char": "uint8", "byte": "uint8"}.get(base, base))
        return int(rng.integers(limits.min, limits.max, dtype=limits.dtype, endpoint=True))
    inner, length = what
    count = length if kind == Nodetype.ARRAY else int(rng.integers(0, min(length or 4, 4) + 1))
    return [random_value(types, inner, rng) for _ in range(count)]


@pytest.mark.parametrize("distribution", list(DISTRIBUTIONS))
def test_bytes_of_every_type_equal_those_of_rosbags_and_of_cyclone(distribution: str) -> None:
    types, rng = RosbagsTypes(distribution), np.random.default_rng(0)
    topic_types = TopicTypes(types)
    store = get_typestore(DISTRIBUTIONS[distribution])
    store.fielddefs.update(types._store.fielddefs)
    store.types.update(types._store.types)
    assert len(types.names()) > 190
    for name in types.names():
        fields = {field: random_value(types, description, rng) for field, description in types.fields(name)}
        message = types.make(name, **fields)
        data = bytes(types.serialize(name, message))
        expected = bytes(store.serialize_cdr(message, name))
        assert len(data) % 4 == 0
        assert data == expected.ljust(len(data), b"\0"), name
        again = types.deserialize(name, memoryview(data))
        assert bytes(types.serialize(name, again)) == data, name
        struct: Any = topic_types._struct(name, {})  # Cyclone's own reading and writing of the topic's type
        assert issubclass(struct, IdlStruct)
        copied = struct.__idl__.deserialize(expected).serialize(use_version_2=False)
        assert copied[4:] == expected[4:], name


def with_other_numbers(value: Any, time: dict[str, int], numbers: Iterator[float]) -> Any:
    """Return plain values with every time in the place of theirs, and every float64 from ``numbers``."""
    kind, what = value[0]
    if kind == Nodetype.NAME and what == "builtin_interfaces/msg/Time":
        return time
    if kind == Nodetype.NAME:
        return {
            field: with_other_numbers((inner, value[1][field]), time, numbers) for field, inner in TYPES.fields(what)
        }
    if kind == Nodetype.BASE:
        return next(numbers) if what[0] == "float64" else value[1]
    return [with_other_numbers((what[0], each), time, numbers) for each in value[1]]


def test_a_repeated_message_has_the_bytes_of_one_made_anew() -> None:
    """Of every type, with random strings and lengths, so that numbers stand at all places that they may stand at."""
    rng, found = np.random.default_rng(1), np.zeros(3, int)
    sent: list[bytes] = []
    publisher: Any = SimpleNamespace(topic="/topic", send=lambda data: sent.append(bytes(data)))
    for name in TYPES.names():
        description = (Nodetype.NAME, name)
        fields = random_value(TYPES, description, rng)
        message = TYPES.make(name, **fields)
        places = TYPES.places(name, message)
        repeater = DdsRepeater(publisher, TYPES.serialize(name, message), places)
        for _ in range(2):
            numbers, time_ns = rng.normal(size=len(places.numbers)), int(rng.integers(2**60))
            time, supply = dict(zip(("sec", "nanosec"), divmod(time_ns, 10**9), strict=True)), iter(numbers.tolist())
            changed = with_other_numbers((description, fields), time, supply)
            assert next(supply, None) is None, f"{name} has fewer numbers"
            repeater.publish(SimpleNamespace(**time), numbers)
            assert sent[-1] == bytes(TYPES.serialize(name, TYPES.make(name, **changed))), name
        found += 1, len(places.numbers), len(places.times)
    assert (found > (190, 1000, 50)).all(), found


def test_a_repeated_message_refuses_another_number_of_numbers() -> None:
    name = "geometry_msgs/msg/Vector3"
    message = TYPES.make(name)
    publisher: Any = SimpleNamespace(topic="/force", send=print)
    repeater = DdsRepeater(publisher, TYPES.serialize(name, message), TYPES.places(name, message))
    for numbers in (np.zeros(2), np.zeros((1, 3))):
        with pytest.raises(ValueError, match=r"/force: expected 3 numbers, got \("):
            repeater.publish(TYPES.make("builtin_interfaces/msg/Time"), numbers)


def test_a_prefix_keeps_the_alignment() -> None:
    name = "std_msgs/msg/Float64"
    data = TYPES.serialize(name, TYPES.make(name, data=2.5), bytes(range(16)))
    assert bytes(data[4:20]) == bytes(range(16)) and np.frombuffer(data, "<f8", offset=20)[0] == 2.5
    assert TYPES.deserialize(name, memoryview(data), 16).data == 2.5


def test_big_endian_is_read() -> None:
    name = "std_msgs/msg/UInt32"
    assert TYPES.deserialize(name, memoryview(b"\0\0\0\0\0\0\0\7")).data == 7


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not plain CDR"),
        (b"\0\7\0\0abcd", "not plain CDR: 00070000"),
        (b"\0\1\0\0\xff\xff\xff\x7fabcd", "damaged"),
        (b"\0\1\0\0\4", "damaged"),
        (b"\0\1\0\0\3\0\0\0\xff\xff\0\0", "damaged"),
    ],
)
def test_damaged_bytes_are_named(data: bytes, text: str) -> None:
    with pytest.raises(DriverError, match=text):
        TYPES.deserialize("std_msgs/msg/String", memoryview(data))


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("std_msgs/msg/String", "df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"),
        ("sensor_msgs/msg/JointState", "a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e"),
        ("sensor_msgs/msg/Image", "d31d41a9a4c4bc8eae9be757b0beed306564f7526c88ea6a4588fb9582527d47"),
        ("sensor_msgs/msg/CameraInfo", "b3dfd68ff46c9d56c80fd3bd4ed22c7a4ddce8c8348f2f59c299e73118e7e275"),
        ("geometry_msgs/msg/Twist", "9c45bf16fe0983d80e3cfe750d6835843d265a9a6c46bd2e609fcddde6fb8d2a"),
    ],
)
def test_hashes_are_those_that_ros_2_jazzy_publishes(name: str, digest: str) -> None:
    assert TYPES.hash(name) == f"RIHS01_{digest}"


def test_hashes_of_all_types_are_those_of_rosbags() -> None:
    """Which makes the descriptions that are hashed by itself. It does not hash ``char`` as a uint8, see below."""
    compared = 0
    for name in TYPES.names():
        told = TYPES.describe(name)
        parts = [part["type_name"] for part in (told["type_description"], *told["referenced_type_descriptions"])]
        if not any("'char'" in str(TYPES._store.fielddefs[part]) for part in parts):
            assert TYPES.hash(name) == TYPES._store.hash_rihs01(name), name
            compared += 1
    assert compared > 200


def test_char_is_hashed_as_uint8() -> None:
    """REP 2016 has no ROS ``char``: it is a uint8 by another name."""
    folder_free = RosbagsTypes("jazzy")
    store = folder_free._store
    store.fielddefs["test_msgs/msg/Octet"] = ([], [("data", (Nodetype.BASE, ("uint8", 0)))])
    store.fielddefs["test_msgs/msg/Letter"] = ([], [("data", (Nodetype.BASE, ("char", 0)))])
    letter = folder_free.hash("test_msgs/msg/Letter")
    store.fielddefs["test_msgs/msg/Letter"] = store.fielddefs["test_msgs/msg/Octet"]
    fresh = RosbagsTypes("jazzy")
    fresh._store.fielddefs["test_msgs/msg/Letter"] = store.fielddefs["test_msgs/msg/Octet"]
    assert letter == fresh.hash("test_msgs/msg/Letter") != folder_free.hash("test_msgs/msg/Octet")


def test_type_names_of_dds() -> None:
    assert dds_type_name("control_msgs/action/X_SendGoal_Request") == "control_msgs::action::dds_::X_SendGoal_Request_"
    assert ros_type_name("std_msgs::msg::dds_::String_") == "std_msgs/msg/String"
    assert ros_type_name("ParticipantData") is None


def test_messages_are_made_of_plain_values() -> None:
    pose = TYPES.make("geometry_msgs/msg/PoseStamped", header={"frame_id": "base"}, pose={"position": {"x": 1}})
    assert (pose.pose.position.x, pose.pose.orientation.w, pose.header.stamp.sec) == (1.0, 1.0, 0)
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    message = TYPES.make("sensor_msgs/msg/Image", data=image)
    assert message.data.shape == (24,) and np.shares_memory(message.data, image)
    joints = TYPES.make("sensor_msgs/msg/JointState", name=("a", "b"), position=np.ones(2, np.float32))
    assert joints.position.dtype == np.float64 and joints.name == ["a", "b"]
    nested = TYPES.make("trajectory_msgs/msg/JointTrajectory", points=[{"positions": [1, 2]}])
    assert nested.points[0].positions.tolist() == [1.0, 2.0]
    assert TYPES.make("sensor_msgs/msg/Imu").orientation_covariance.shape == (9,)
    status = TYPES.make("diagnostic_msgs/msg/DiagnosticStatus", level=b"\x02")
    assert status.level == 2
    assert "sensor_msgs/msg/Imu" in TYPES and "sensor_msgs/msg/Imo" not in TYPES
    assert TYPES["sensor_msgs/msg/Imu"].__name__.endswith("Imu")


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("sensor_msgs/msg/JointStat", {}, "not known.*sensor_msgs/msg/JointState"),
        ("sensor_msgs/msg/JointState", {"positon": [1.0]}, "no field 'positon'.*position"),
        ("std_msgs/msg/UInt8", {"data": 256}, "expected 0 to 255"),
        ("std_msgs/msg/UInt8", {"data": 1.5}, "whole number"),
        ("std_msgs/msg/String", {"data": 5}, "expected text"),
        ("sensor_msgs/msg/Imu", {"orientation_covariance": [1.0]}, "expected 9 values"),
        ("shape_msgs/msg/SolidPrimitive", {"dimensions": [1.0] * 4}, "at most 3 values"),
        ("sensor_msgs/msg/Image", {"data": np.array([300])}, "uint8"),
        ("geometry_msgs/msg/Twist", {"linear": 3}, "geometry_msgs/msg/Vector3 or a dictionary"),
    ],
)
def test_values_that_do_not_fit_are_named(name: str, fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        TYPES.make(name, **fields)


def test_definitions_of_a_user(tmp_path: Path) -> None:
    files = {
        "my_robot/msg/Tool.msg": "uint8 NONE=0\nuint8 kind\nfloat64 width 0.08\nstring name 'claw' # its name\n",
        "my_robot/srv/ChangeTool.srv": "Tool tool\n---\nbool success\n",
        "my_robot/action/Wipe.action": "Tool tool\n---\nfloat64 area\n---\nfloat64 share\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    types = RosbagsTypes("humble", [tmp_path])
    tool = types.make("my_robot/msg/Tool")
    assert (tool.kind, tool.width, tool.name, tool.NONE) == (0, 0.08, "claw", 0)
    request = types.make("my_robot/srv/ChangeTool_Request", tool={"kind": 3})
    assert types.deserialize(
        "my_robot/srv/ChangeTool_Request", memoryview(types.serialize(request.__msgtype__, request))
    )
    goal = types.make("my_robot/action/Wipe_SendGoal_Request", goal={"tool": tool})
    assert goal.goal.tool.name == "claw" and goal.goal_id.uuid.shape == (16,)
    assert types.make("my_robot/action/Wipe_GetResult_Response").result.area == 0.0
    assert types.make("my_robot/action/Wipe_FeedbackMessage").feedback.share == 0.0


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("pkg/srv/Bad.srv", "bool a\n", "expected 1 lines of ---, got 0"),
        ("pkg/msg/Bad.msg", "what?\n", "Bad.msg is no definition"),
        ("pkg/msg/Bad.msg", "Thing thing\n", "pkg/msg/Bad.thing is of type pkg/msg/Thing, which is not"),
        ("sensor_msgs/msg/Imu.msg", "bool other\n", "already present with different definition"),
        ("readme.txt", "", "has no definitions"),
    ],
)
def test_bad_definitions_are_named(tmp_path: Path, file: str, content: str, text: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content)
    with pytest.raises(ConfigError, match=text):
        RosbagsTypes("jazzy", [tmp_path])


def test_an_unknown_distribution_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DISTRO", "foxy")
    with pytest.raises(ConfigError, match=r"ROS_DISTRO=foxy: message definitions of humble and jazzy"):
        RosbagsTypes()

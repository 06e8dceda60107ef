"""Bags as people report them: images, names, success and values, read or refused by topic, time and cause."""

import os

import numpy as np
import pytest
from rosbags.typesys import get_types_from_msg

from robo_rl.core import ConfigError, DataError
from robo_rl.drivers.robot.decoding import NamedNumbers
from robo_rl.replay import EpisodeStore
from robo_rl.replay.interchange import ForeignConfig, Rosbag
from robo_rl.replay.interchange.rosbag_messages import TopicConfig

from ..rigs.bag_cases import CASES, COMMAND, JOINTS, STATE, case_topics, commands, joints, load, run_import
from ..rigs.bags import START, TYPES, image, joint_state, number, record_messages

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


@pytest.mark.parametrize(
    ("other", "skipped"),
    [
        (joint_state(["k", "k"], [9, 9]), "k, k"),
        (joint_state(["k"], [9, 9]), "k"),
        (joint_state(["left/a", "left/b"], [9, 9]), "left/a, left/b"),
        (joint_state(["k"], [np.nan]), "k"),
        (joint_state([], []), ""),
        (joint_state(["k", "b", "k", "a"], [9, -1, 9, 1], velocity=[9, 0, 9, 0]), None),
    ],
    ids=["a name twice", "too many values", "another arm", "no number", "nothing", "among the joints"],
)
def test_messages_of_others_on_a_topic_are_read_as_the_driver_reads_them(tmp_path, other, skipped):
    own = joint_state(["a", "b"], [1, -1])
    decode = NamedNumbers("joints", ("a", "b"), ("position",), ("a", "b"))
    messages = [*commands(), *(("/joints", n / 20, other if n % 2 else own) for n in range(20))]
    path = record_messages(tmp_path / "bag", sorted(messages, key=lambda message: message[1]))
    topic = TopicConfig(topic="joints", gives="state", fields=("position",), names=("a", "b"), max_age=0.2)
    (episode,), notes = load(path, topic, COMMAND)
    np.testing.assert_array_equal(episode.observation["state"], [[1, -1]] * len(episode.observation["state"]))
    if skipped is None:
        np.testing.assert_array_equal(decode(other), decode(own))
    else:
        assert {"a", "b"}.isdisjoint(other.name)  # which the driver passes over
        assert f"10 of /joints name {skipped or 'nothing'}" in "".join(notes)


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
        (joint_state(["a", "a"], [0, 0]), (), "'a' occurs twice in a, a"),
        (joint_state(["a", "b", "b"], [0, 0, 0]), ("a", "b"), "'b' occurs twice in a, b, b"),
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

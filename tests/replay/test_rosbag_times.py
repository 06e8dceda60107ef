"""Recorded time of bags: no episode crosses a gap, a clock that was put back or a reset of a simulation."""

import numpy as np
import pytest

from robo_rl.core import DataError
from robo_rl.replay.interchange import ForeignConfig, Rosbag
from robo_rl.replay.interchange.rosbag_messages import TopicConfig

from ..rigs.bags import joint_state, number, record_messages

TOPICS = {
    "state": TopicConfig(topic="joints", gives="state", fields=("position",), names=("a",)),
    "command": TopicConfig(topic="command", gives="action", fields=("data",)),
}
"""Of ``recording``: both say how many seconds had really passed."""


def load(path, topics=TOPICS, rate=10.0, **options):
    """Read a bag; return its episodes, and what is said of them."""
    config = ForeignConfig(control_rate=rate, action_low=[0.0], action_high=[100.0])
    data = Rosbag(topics=topics, **options).load(path, config)
    return list(data.episodes()), data.notes.lines()


def recording(seconds=4.0, clock=lambda t: t, stamp=lambda t: None, without=lambda topic, t: False):
    """Return what a recorder gets: joints at 50 Hz, commands at 20 Hz; ``clock`` is what it takes the time for."""
    events = sorted(
        [(n / 50, "/joints") for n in range(round(50 * seconds))]
        + [(n / 20 + 0.001, "/command") for n in range(round(20 * seconds))]
    )
    return [
        (topic, clock(t), joint_state(["a"], [t], stamp(t)) if topic == "/joints" else number(t))
        for t, topic in events
        if not without(topic, t)
    ]


def spans(episodes):
    """Return what was really the time at the begin and the end of each episode, to a tenth of a second."""
    found = []
    for episode in episodes:
        times = episode.observation["state"][:, 0]
        np.testing.assert_allclose(np.diff(times), 0.1, atol=0.021)
        actions = (episode.executed_action[:, 0] + 1) * 50
        assert (np.abs(actions - times[1:]) < 0.052).all(), "a command is the newest at the end of its period"
        found.append((round(float(times[0]), 1), round(float(times[-1]), 1)))
    return found


@pytest.mark.parametrize("storage", ["MCAP", "SQLITE3"])
@pytest.mark.parametrize(
    ("back", "second"), [(0.3, 2.0), (1.5, 2.0), (3600.0, 2.0)], ids=["by little", "into what was recorded", "an hour"]
)
def test_an_episode_ends_where_the_clock_was_put_back(tmp_path, storage, back, second):
    messages = recording(clock=lambda t: t if t < second else t - back)
    episodes, notes = load(record_messages(tmp_path / "bag", messages, storage))
    (first, begin), (again, end) = spans(episodes)
    assert first == 0 and 1.7 <= begin <= 2.0 <= again <= 2.1 and end >= 3.8
    assert len(notes) == 1 and notes[0].startswith("Clock set back in a bag, which ends an episode: 1 (")


def test_a_clock_that_was_put_back_again_and_again(tmp_path):
    """As the time of a simulation that starts anew with each of its episodes."""
    episodes, notes = load(record_messages(tmp_path / "bag", recording(8.0, clock=lambda t: t % 2)))
    assert spans(episodes) == [(0, 1.9), (2, 3.9), (4, 5.9), (6, 7.9)]
    assert "which ends an episode: 3" in notes[0]


def test_a_clock_that_was_put_forward_leaves_a_gap(tmp_path):
    episodes, notes = load(record_messages(tmp_path / "bag", recording(clock=lambda t: t if t < 2 else t + 500)))
    assert len(spans(episodes)) == 2
    assert "/joints, silent for 500.02 s, 1.98 s after the beginning" in notes[0]


def test_an_episode_ends_where_the_stamps_go_back(tmp_path):
    """A simulation is reset while the recorder's clock goes on: the robot is somewhere else at once."""
    episodes, notes = load(record_messages(tmp_path / "bag", recording(stamp=lambda t: t if t < 2 else t - 1.9)))
    assert spans(episodes) == [(0, 1.9), (2, 3.9)]
    assert "/joints, stamps go back, 1.98 s after the beginning" in notes[0]


@pytest.mark.parametrize("storage", ["MCAP", "SQLITE3"])
@pytest.mark.parametrize("order", ["chunks", "topics", "neighbours", "random", "reversed"])
def test_a_file_in_another_order_than_that_of_time_is_put_right(tmp_path, storage, order):
    messages = recording()
    random = np.random.default_rng(0)
    if order == "chunks":
        parts = [messages[first : first + 30] for first in range(0, len(messages), 30)]
        messages = [message for index in random.permutation(len(parts)) for message in parts[index]]
    elif order == "topics":
        messages = sorted(messages, key=lambda message: message[0])
    elif order == "neighbours":
        joints = [index for index, message in enumerate(messages) if message[0] == "/joints"]
        for index in range(5, len(joints) - 1, 20):
            first, second = joints[index], joints[index + 1]
            messages[first], messages[second] = messages[second], messages[first]
    elif order == "random":
        messages = [messages[index] for index in random.permutation(len(messages))]
    else:
        messages = messages[::-1]
    episodes, notes = load(record_messages(tmp_path / "bag", messages, storage))
    assert (spans(episodes), notes) == ([(0, 3.9)], [])


@pytest.mark.parametrize(
    ("silent", "expected", "note"),
    [
        (lambda topic, t: 1 < t < 1.5, [(0, 1), (1.5, 3.9)], "silent for 0.50 s, 1.00 s after the beginning"),
        (lambda topic, t: topic == "/joints" and 1 < t < 1.5, [(0, 1), (1.5, 3.9)], "/joints, silent for 0.50 s"),
        (lambda topic, t: topic == "/command" and 1 < t < 1.5, [(0, 1), (1.5, 3.9)], "/command, silent for 0.55 s"),
        (lambda topic, t: 1 < t < 1.5 or 2 < t < 3, [(0, 1), (1.5, 2), (3, 3.9)], "each of which ends an episode: 4"),
    ],
    ids=["all", "joints", "commands", "twice"],
)
def test_an_episode_ends_at_a_gap(tmp_path, silent, expected, note):
    episodes, lines = load(record_messages(tmp_path / "bag", recording(without=silent)))
    for (begin, end), (first, last) in zip(spans(episodes), expected, strict=True):
        assert abs(begin - first) < 0.11 and abs(end - last) < 0.11
    assert [episode.record.episode for episode in episodes] == list(range(len(expected)))
    assert any(note in line for line in lines)


def test_parts_too_short_for_a_step_are_counted(tmp_path):
    path = record_messages(tmp_path / "bag", recording(without=lambda topic, t: 1 < t < 1.4 or 1.45 < t < 2))
    episodes, notes = load(path)
    assert len(spans(episodes)) == 2
    assert any(line.startswith("Parts of bags shorter than a control period, left out: 1 (") for line in notes)


def test_a_bag_of_which_nothing_is_left_says_what_it_has(tmp_path):
    path = record_messages(tmp_path / "bag", recording(without=lambda topic, t: topic == "/joints" and t > 0.01))
    with pytest.raises(
        DataError, match=r"no control period of 0\.1 s.* /joints has 1 from .*; /command has 80 .* 0\.05 s"
    ):
        load(path)


def test_topics_slower_than_the_control_rate_are_said(tmp_path):
    path = record_messages(tmp_path / "bag", recording())
    _, notes = load(path, rate=40.0)
    assert notes == [
        f"Topics slower than foreign.control_rate, whose values repeat: 1 ({path}: /command, one every 0.05 s)"
    ]


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_paired_across_a_gap_in_any_recording(tmp_path, seed):
    """Random rates, jitter, gaps, jumps of the clock, and messages that a recorder of several threads swaps."""
    random = np.random.default_rng(seed)
    seconds = random.uniform(3, 6)
    jumps = {at: random.choice([-1, 1]) * 10 ** random.uniform(-1, 3) for at in random.uniform(0, seconds, seed % 4)}
    gap = random.uniform(0, seconds)
    events = []
    for topic in ("/joints", "/command"):
        rate = random.uniform(30, 80)
        times = (np.arange(seconds * rate) + random.uniform(0, 0.9, int(np.ceil(seconds * rate)))) / rate
        events += [(t, topic) for t in times if not gap <= t < gap + 0.3]
    events.sort()
    if seed % 2:
        events = [events[index] for index in np.argsort(np.arange(len(events)) + random.uniform(0, 3, len(events)))]
    messages = []
    for t, topic in events:
        clock = t + sum(delta for at, delta in jumps.items() if t >= at)
        messages.append((topic, clock, joint_state(["a"], [t]) if topic == "/joints" else number(t)))
    episodes, notes = load(record_messages(tmp_path / "bag", messages))
    for episode in episodes:
        times, actions = episode.observation["state"][:, 0], (episode.executed_action[:, 0] + 1) * 50
        np.testing.assert_allclose(np.diff(times), 0.1, atol=0.1)  # as far as max_age lets it
        np.testing.assert_allclose(actions, times[1:], atol=0.1)
    covered = sum(episode.record.steps for episode in episodes) / 10
    assert covered > seconds - 0.3 - 0.4 * (len(jumps) + 1), "what is sound is kept"
    assert bool(notes) == (len(episodes) > 1)

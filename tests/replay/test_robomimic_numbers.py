"""Flags and large numbers in files of robomimic: read exactly, refused by name, or said to be rounded."""

import numpy as np
import pytest

from robo_rl.core import DataError

from .test_robomimic_cases import STEPS, load, write


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (0.5, r"demo_0: episode 0: 'done' of frame 5 is 0\.5, expected one of 0, 1, or a boolean; 1 of its 6 frames"),
        (2, r"'done' of frame 5 is 2\.0"),
        (-1, r"'done' of frame 5 is -1\.0"),
        (256, r"'done' of frame 5 is 256\.0"),
        (np.nan, r"'done' of frame 5 has nan .* foreign\.faults=cut"),
        (np.inf, r"'done' of frame 5 has inf"),
    ],
)
def test_dones_that_are_no_flags_are_refused(tmp_path, last, message):
    with pytest.raises(DataError, match=message):
        load(write(tmp_path / "a.hdf5", dones=np.array([0, 0, 0, 0, 0, last], float)))


@pytest.mark.parametrize(
    ("dones", "lengths", "terminated"),
    [
        ([0, 0, 1, 0, 0, 0], [3, 2], [True, False]),  # nothing was observed after the last action
        ([0, 0, 1, 0, 0, 1], [3, 3], [True, True]),
        ([0, 0, 0, 1, 1, 1], [4, 1, 1], [True] * 3),  # in every state of success, as robomimic writes them
        ([1, 0, 0, 0, 0, 1], [1, 5], [True, True]),
    ],
)
@pytest.mark.parametrize("kind", [np.uint8, np.float64, np.bool_])
def test_an_episode_ends_at_each_step_that_is_done(tmp_path, dones, lengths, terminated, kind):
    rewards = np.arange(STEPS, dtype=float)
    data, episodes = load(write(tmp_path / "a.hdf5", demos=1, dones=np.array(dones, kind), rewards=rewards))
    assert [episode.record.steps for episode in episodes] == lengths
    assert [bool(episode.terminated[-1]) for episode in episodes] == terminated
    kept = sum(lengths)
    np.testing.assert_array_equal(np.concatenate([each.rewards["reward"] for each in episodes]), rewards[:kept])
    early, first = sum(dones[:-1]), dones.index(1)
    note = "Episodes that are done before their last step, and are split there"
    assert f"{note}: 1 (0: {early} steps, first {first} of 6)" in data.notes.lines()


@pytest.mark.parametrize("kind", [np.uint64, np.int64])
@pytest.mark.parametrize("value", [2**60 + 1, 2**63 - 1, 2**24 + 1])
def test_whole_numbers_that_are_rounded_are_said(tmp_path, value, kind):
    large = np.full((STEPS, 2), value, kind)
    data, _ = load(write(tmp_path / "a.hdf5", **{"obs/count": large, "rewards": large[:, 0]}))
    assert data.notes.lines() == ["Integers too large for float32, rounded: 2 (obs/count, reward)"]


def test_whole_numbers_that_fit_are_kept_without_a_word(tmp_path):
    most = np.array([[0, 255]] * STEPS)
    arrays = {"obs/a": most.astype(np.uint8), "obs/b": most.astype(np.int64) << 40}
    data, episodes = load(write(tmp_path / "a.hdf5", **arrays))
    assert not data.notes.lines() and episodes[0].observation["b"].max() == 255 << 40
    data, _ = load(write(tmp_path / "b.hdf5", **{"obs/a": np.full((STEPS, 1), 2**64 - 1, np.uint64)}))
    assert data.notes.lines() == ["Integers too large for float32, rounded: 1 (obs/a)"]


def test_rewards_beyond_float32_are_refused_rather_than_infinite(tmp_path):
    with pytest.raises(DataError, match=r"'reward' of frame 0 has 1e\+300 in element 0 \(too large for float32"):
        load(write(tmp_path / "a.hdf5", rewards=np.full(STEPS, 1e300)))


@pytest.mark.parametrize(
    ("removed", "steps"), [([2], [1, 3]), ([1, 4], [1, 1]), ([2, 3], [1, 2]), ([0], [5]), ([5], [5]), ([], [6])]
)
def test_a_step_is_not_paired_with_an_observation_that_does_not_follow_it(tmp_path, removed, steps):
    """Steps without motion were removed, as many do before they train: ``next_obs`` of the step before shows it."""
    states = np.random.default_rng(0).standard_normal((STEPS + 1, 3))
    kept = np.delete(np.arange(STEPS), removed)
    arrays = {"obs/state": states[kept], "next_obs/state": states[kept + 1], "actions": np.zeros((len(kept), 2))}
    path = write(tmp_path / "data.hdf5", demos=1, rewards=None, dones=None, **arrays)
    data, episodes = load(path)
    assert [episode.record.steps for episode in episodes] == steps
    pairs = {tuple(row) for row in np.hstack([states[:-1], states[1:]]).astype(np.float32)}
    for episode in episodes:
        rows = episode.observation["state"]
        assert {tuple(row) for row in np.hstack([rows[:-1], rows[1:]])} <= pairs
    line = any("Steps that the next one does not follow" in line for line in data.notes.lines())
    assert line == (len(steps) > 1)


@pytest.mark.parametrize("kind", ["float32", "bool", "int16"])
def test_rounding_is_no_gap(tmp_path, kind):
    states = (10 * np.random.default_rng(0).standard_normal((STEPS + 1, 3))).astype(kind)
    following = states[1:].astype(np.float64) * (1 + 1e-6) if kind == "float32" else states[1:]
    path = write(tmp_path / "data.hdf5", **{"obs/state": states[:-1], "next_obs/state": following})
    assert [episode.record.steps for episode in load(path)[1]] == [STEPS, STEPS]


@pytest.mark.parametrize("change", [lambda rows: (rows - 1) / 2, lambda rows: -rows, lambda rows: rows + 0.01])
def test_a_next_observation_that_never_agrees_is_refused_rather_than_every_step_left_out(tmp_path, change):
    states = np.random.default_rng(0).standard_normal((STEPS + 1, 3))
    path = write(tmp_path / "data.hdf5", **{"obs/state": states[:-1], "next_obs/state": change(states[1:])})
    with pytest.raises(DataError, match=r"demo_0/next_obs/state differs .* at 5 of 5 steps, .* Leave 'state' out"):
        load(path)


def test_an_episode_of_one_step_has_nothing_to_compare(tmp_path):
    arrays = {name: np.zeros((1, 2)) for name in ("obs/state", "next_obs/state", "actions")}
    path = write(tmp_path / "data.hdf5", rewards=None, dones=None, **arrays)
    assert [episode.record.steps for episode in load(path)[1]] == [1, 1]

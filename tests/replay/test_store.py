"""Data sets on disk: what is written is read, and what does not fit a task is refused."""

import dataclasses
import json
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import zarr
from zarr.codecs import ZstdCodec

from robo_rl.core import ArraySpec, DataError, EnvSpec, RewardWeights, Source
from robo_rl.replay import EpisodeStore, ReplayRing, layout
from robo_rl.replay import store as store_module

from ..rigs.replay_episodes import METADATA, SPEC, assert_same, make_episode, record


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A data set to be read only, and its episodes."""
    path = tmp_path_factory.mktemp("data") / "set"
    return path, record(path)


def test_what_is_written_is_read(recorded):
    path, episodes = recorded
    with EpisodeStore.open(path) as store:
        assert len(store) == 4
        assert store.spec == SPEC
        assert store.metadata == METADATA
        for number, episode in enumerate(episodes):
            assert_same(store.episode(number), episode)


def test_files_that_are_links_are_read(recorded, tmp_path):
    """As the Hugging Face cache, git-annex and DVC lay them."""
    path, episodes = recorded
    for file in path.rglob("*"):
        link = tmp_path / "set" / file.relative_to(path)
        if file.is_file():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)
    with EpisodeStore.open(tmp_path / "set") as store:
        for number, episode in enumerate(episodes):
            assert_same(store.episode(number), episode)


def test_what_is_said_of_a_data_set_can_be_replaced_and_nothing_else_changes(tmp_path):
    episode = make_episode(0, 3)
    with EpisodeStore.create(tmp_path / "set", SPEC, METADATA) as store:
        store.append_episode(episode)
        store.describe({"device": "another"})
        assert store.metadata == {"device": "another"}
    with EpisodeStore.open(tmp_path / "set") as store:
        assert (store.metadata, store.spec) == ({"device": "another"}, SPEC)
        assert_same(store.episode(0), episode)
        with pytest.raises(DataError, match="opened for reading"):
            store.describe({})


def test_episode_is_stored_as_one_more_observation_than_actions(recorded):
    path, episodes = recorded
    with EpisodeStore.open(path) as store:
        arrays = store.arrays(1)
    assert arrays.observation["images/front"].shape == (451, 24, 24, 3)
    assert arrays.executed_action.shape == (450, 2)
    np.testing.assert_array_equal(arrays.observation["state"][450], episodes[1][-1].next_observation["state"])
    np.testing.assert_array_equal(arrays.rewards["distance"], [t.rewards["distance"] for t in episodes[1]])
    np.testing.assert_array_equal(arrays.stamp_ns, [t.stamp_ns for t in episodes[1]])


def test_format_on_disk_is_as_documented(recorded):
    path, episodes = recorded
    records = [json.loads(line) for line in (path / "episodes.jsonl").read_text().splitlines()]
    facts = json.loads((path / "dataset.json").read_text())
    assert [record["steps"] for record in records] == [7, 450, 1, 30]
    assert facts["format"] == "robo_rl episodes"
    assert facts["format_version"] == 1
    assert EnvSpec.from_json(facts["spec"]) == SPEC
    # Plain Zarr finds episode 3 after the 7 + 450 + 1 steps, and as many observations and one more per episode.
    frames = zarr.open_array(path / "arrays.zarr", path="observation/images/front", mode="r")
    actions = zarr.open_array(path / "arrays.zarr", path="executed_action", mode="r")
    assert frames.shape == (488 + 4, 24, 24, 3)
    assert actions.shape == (488, 2)
    assert (frames.chunks[0], frames.shards[0]) == (10, 200)
    np.testing.assert_array_equal(frames[461], episodes[3][0].observation["images/front"])
    np.testing.assert_array_equal(actions[458], episodes[3][0].executed_action)


@pytest.mark.parametrize("read_bytes", [1, 20_000, 10**9])
def test_episodes_are_read_several_at_a_time_or_one_by_one(recorded, monkeypatch, read_bytes):
    path, episodes = recorded
    monkeypatch.setattr(store_module, "READ_BYTES", read_bytes)
    with EpisodeStore.open(path) as store:
        for first, stop in ((0, None), (1, 3), (2, 2), (4, None)):
            found = list(store.episodes(first, stop))
            assert len(found) == len(episodes[first:stop])
            for actual, original in zip(found, episodes[first:stop], strict=True):
                assert_same(actual, original)
                assert all(later.observation is last.next_observation for last, later in pairwise(actual))


def test_episodes_are_read_a_number_at_a_time_however_short(recorded, monkeypatch):
    path, episodes = recorded
    monkeypatch.setattr(store_module, "READ_EPISODES", 3)
    with EpisodeStore.open(path) as store:
        read, taken = store.files.read, set()
        monkeypatch.setattr(
            store.files, "read", lambda name, first, records: taken.add(len(records)) or read(name, first, records)
        )
        for actual, original in zip(store.episodes(), episodes, strict=True):
            assert_same(actual, original)
    assert taken == {3, 1}


def test_what_is_known_of_many_episodes_takes_little_memory(tmp_path):
    path, episode = tmp_path / "set", make_episode(0, 2)
    with EpisodeStore.create(path, SPEC) as store:
        store.append_episodes([episode] * 2000)
    with EpisodeStore.open(path) as store:  # what is imported and remembered once
        list(store.records)
    tracemalloc.start()
    try:
        with EpisodeStore.open(path) as store:
            assert sum(record.steps for record in store.records) == 4000
            held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    line = (path / "episodes.jsonl").stat().st_size / 2000
    assert held / 2000 < line + 200


def test_data_sets_of_other_compressors_are_read_and_gone_on_with(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "IMAGE_COMPRESSORS", ZstdCodec(level=3, checksum=True))
    episodes = [make_episode(number, 30) for number in range(2)]
    with EpisodeStore.create(tmp_path / "set", SPEC) as store:
        store.append_episode(episodes[0])
    monkeypatch.undo()
    with EpisodeStore.open(tmp_path / "set", "a") as store:
        store.append_episode(episodes[1])
        assert_same(store.episode(0), episodes[0])
        assert_same(store.episode(1), episodes[1])


def test_keys_can_be_chosen(recorded):
    with EpisodeStore.open(recorded[0]) as store:
        assert store.episode(0, keys=["state"])[2].observation.keys() == {"state"}
        with pytest.raises(DataError, match=r"no observations \['images/back'\]; it holds \['images/front', 'state'\]"):
            store.episode(0, keys=["images/back"])


def test_a_row_is_read_alone(recorded):
    path, episodes = recorded
    with EpisodeStore.open(path) as store:
        for key in SPEC.observation:
            np.testing.assert_array_equal(
                store.files.row(f"observation/{key}", 1, 449), episodes[1][449].observation[key]
            )
            np.testing.assert_array_equal(
                store.files.row(f"observation/{key}", 1, 450), episodes[1][449].next_observation[key]
            )
        np.testing.assert_array_equal(store.files.row("executed_action", 3, 29), episodes[3][29].executed_action)
        for name, index in (("executed_action", 30), ("observation/state", 31), ("observation/state", -1)):
            with pytest.raises(DataError, match=f"episode 3 has no row {index} of {name}"):
                store.files.row(name, 3, index)


def test_missing_episode_is_named(recorded):
    with EpisodeStore.open(recorded[0]) as store:
        for number in (4, -1):
            with pytest.raises(DataError, match=f"there is no episode {number}; it holds 4, counted from 0"):
                store.arrays(number)


def test_summary_counts_by_episode_and_source(recorded):
    path, episodes = recorded
    with EpisodeStore.open(path) as store:
        summary = store.summary()
    sources = [t.source for episode in episodes for t in episode]
    assert (summary.episodes, summary.steps) == (4, 488)
    assert summary.successes == sum(episode[-1].success is True for episode in episodes)
    assert summary.sources == {s.name.lower(): sources.count(s) for s in Source}


def test_loading_into_a_ring_is_appending_the_transitions(recorded):
    path, episodes = recorded
    with EpisodeStore.open(path) as store:
        assert store.ring_slots() == 492
        assert store.ring_slots(2) == 7 + 1 + 450 + 1
        loaded, appended = ReplayRing(492, SPEC), ReplayRing(492, SPEC)
        assert store.load_into(loaded) == 488
        for episode in episodes:
            appended.append(episode)
        for key, value in appended.state().items():
            np.testing.assert_array_equal(loaded.state()[key], value, err_msg=key)
        few = ReplayRing(492, SPEC)
        assert store.load_into(few, max_episodes=2) == 457
        assert len(few) == 457
        with pytest.raises(DataError, match="492 observations do not fit into a replay ring of 491"):
            store.load_into(ReplayRing(491, SPEC))


def test_task_may_use_part_of_the_observations_and_terms(recorded):
    narrow = dataclasses.replace(
        SPEC, task="other", observation={"state": SPEC.observation["state"]}, reward_terms=("distance",)
    )
    ring = ReplayRing(500, narrow)
    with EpisodeStore.open(recorded[0]) as store:
        assert store.load_into(ring) == 488
    rewards = ring.rows.everything(RewardWeights({"distance": 1.0}))["reward"]
    expected = [t.rewards["distance"] for episode in recorded[1] for t in episode]
    np.testing.assert_array_equal(rewards, np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"observation": SPEC.observation | {"state": ArraySpec((4,))}},
            "observation 'state': expected float32 (4,), found float32 (3,)",
        ),
        (
            {"observation": SPEC.observation | {"images/front": ArraySpec((64, 64, 3), "uint8")}},
            "observation 'images/front': expected uint8 (64, 64, 3), found uint8 (24, 24, 3)",
        ),
        (
            {"observation": SPEC.observation | {"object": ArraySpec((7,))}},
            "observation 'object': shape (7,) present, but not found",
        ),
        ({"action": ArraySpec((7,))}, "action: expected shape (7,), found (2,)"),
        ({"action_space": "joint_position"}, "action_space: expected joint_position, found end_effector_delta"),
        ({"action_frame": "end_effector"}, "action_frame: expected end_effector, found base"),
        ({"control_rate": 20.0}, "control_rate: expected 20.0, found 10.0"),
        ({"extra": {"translation_scale": 0.02}}, "translation_scale: expected 0.02, found 0.01"),
    ],
)
def test_data_of_another_task_is_refused_with_both_values(recorded, change, line):
    path, _ = recorded
    task = dataclasses.replace(SPEC, **change)
    with EpisodeStore.open(path) as store, pytest.raises(DataError) as caught:
        store.load_into(ReplayRing(500, task))
    assert str(caught.value) == (
        f"{path}: recorded for another task or setting: {line}. Record for this task, or use the settings of the "
        "data set for the task"
    )


def test_all_differences_are_named_at_once(recorded):
    task = dataclasses.replace(SPEC, action=ArraySpec((7,)), control_rate=20.0)
    with EpisodeStore.open(recorded[0]) as store, pytest.raises(DataError, match=r"\(7,\), found \(2,\); control_rate"):
        store.check_against(task)


def test_missing_reward_term_is_refused(recorded):
    task = dataclasses.replace(SPEC, reward_terms=("success", "grasped"))
    with EpisodeStore.open(recorded[0]) as store, pytest.raises(DataError, match=r"\['grasped'\] were not recorded"):
        store.load_into(ReplayRing(500, task))


def test_spec_with_tuples_agrees_with_itself_on_disk(tmp_path):
    spec = dataclasses.replace(SPEC, extra={"scale": (0.01, 0.02)})
    with EpisodeStore.create(tmp_path / "set", spec) as store:
        store.append_episode(make_episode(0, 3, spec))
        store.check_against(spec)

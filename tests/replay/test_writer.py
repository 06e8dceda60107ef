"""Recording into a data set: commit, discard, delete, and what is refused."""

import dataclasses
import re
import shutil
import zlib

import numpy as np
import pytest
import zarr

from robo_rl.core import DataError, SpecError
from robo_rl.replay import EpisodeStore, chunks, disk

from ..rigs.replay_episodes import SPEC, assert_same, make_episode, record


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A data set to be read only, and its episodes."""
    path = tmp_path_factory.mktemp("data") / "set"
    return path, record(path)


@pytest.fixture
def copy(recorded, tmp_path):
    """The data set of ``recorded``, to be changed."""
    shutil.copytree(recorded[0], tmp_path / "set")
    return tmp_path / "set"


def test_recording_goes_on_in_an_existing_data_set(copy, recorded):
    with EpisodeStore.open(copy, "a") as store:
        assert store.append_episode(make_episode(4, 250, end="truncated")) == 4
    with EpisodeStore.open(copy) as store:
        for number, episode in enumerate([*recorded[1], make_episode(4, 250, end="truncated")]):
            assert_same(store.episode(number), episode)


def test_checksums_are_those_of_zlib(recorded):
    with EpisodeStore.open(recorded[0]) as store:
        records = store.records
    rows = zarr.open_array(recorded[0] / "arrays.zarr", path="executed_action", mode="r")[:]
    begin = 0
    for episode in records:
        end = begin + episode.steps
        assert episode.crc32["executed_action"] == zlib.crc32(rows[begin:end].tobytes())
        begin = end
    assert begin > 400


def test_discarded_episode_leaves_no_trace(copy, recorded):
    with EpisodeStore.open(copy, "a") as store:
        writer = store.writer()
        for transition in make_episode(4, 430):
            writer.append(transition)
        assert len(writer) == 430
        writer.discard()
        writer.discard()
        with pytest.raises(RuntimeError, match="committed or discarded"):
            writer.append(make_episode(4, 1)[0])
        assert zarr.open_array(copy / "arrays.zarr", path="executed_action", mode="r").shape == (488, 2)
        store.append_episode(make_episode(5, 20))
    with EpisodeStore.open(copy) as store:
        assert_same(store.episode(3), recorded[1][3])
        assert_same(store.episode(4), make_episode(5, 20))


def test_exception_or_close_discards_the_open_episode(copy):
    with EpisodeStore.open(copy, "a") as store:
        with pytest.raises(KeyboardInterrupt), store.writer() as writer:
            writer.append(make_episode(4, 1)[0])
            raise KeyboardInterrupt
        with store.writer():
            pass  # an episode without a step is none
        store.writer().append(make_episode(4, 1)[0])
    with EpisodeStore.open(copy) as store:
        assert len(store) == 4


def test_block_end_commits(copy):
    with EpisodeStore.open(copy, "a") as store:
        with store.writer() as writer:
            for transition in make_episode(4, 5):
                writer.append(transition)
        assert not writer.is_open
        with store.writer() as writer:
            for transition in make_episode(5, 5):
                writer.append(transition)
            assert writer.commit() == 5
        assert len(store) == 6


def test_last_episode_can_be_deleted(copy, recorded):
    with EpisodeStore.open(copy, "a") as store:
        store.delete_last_episode()
        store.delete_last_episode()
        store.append_episode(make_episode(9, 4))
    with EpisodeStore.open(copy, "a") as store:
        assert len(store) == 3
        assert_same(store.episode(1), recorded[1][1])
        assert_same(store.episode(2), make_episode(9, 4))
        for _ in range(3):
            store.delete_last_episode()
        with pytest.raises(DataError, match="there is no episode to delete"):
            store.delete_last_episode()
        store.append_episode(make_episode(9, 4))


def test_steps_that_do_not_follow_are_refused_and_the_episode_goes_on(copy):
    steps = make_episode(4, 6)
    altered = dataclasses.replace(steps[2], observation=make_episode(8, 1)[0].observation)
    with EpisodeStore.open(copy, "a") as store, store.writer() as writer:
        writer.append(steps[0])
        writer.append(steps[1])
        with pytest.raises(DataError, match="step 4003 of episode 4 does not follow step 4001 of episode 4"):
            writer.append(steps[3])
        with pytest.raises(DataError, match="step 4002: its observation 'state' is not the one that ended step 4001"):
            writer.append(altered)
        for step in steps[2:]:
            writer.append(step)
        writer.commit()
        assert_same(store.episode(4), steps)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"executed_action": np.full(2, np.nan, np.float32)}, "executed action: expected finite values"),
        ({"proposed_action": np.zeros(3, np.float32)}, "proposed action: expected a float32 array of shape (2,)"),
        ({"observation": {}}, "observation: expected keys ['images/front', 'state'], got []"),
        ({"rewards": {"success": 0.0}}, "rewards: expected terms ['distance', 'success'], got ['success']"),
        ({"rewards": {"success": 0.0, "distance": float("nan")}}, "rewards: expected finite terms"),
    ],
)
def test_steps_against_the_spec_are_refused(copy, change, message):
    with EpisodeStore.open(copy, "a") as store:
        with pytest.raises(SpecError, match=re.escape(message)):
            store.append_episode([dataclasses.replace(make_episode(4, 1)[0], **change)])
        assert len(store) == 4
        store.append_episode(make_episode(4, 2))


def test_one_episode_at_a_time(copy):
    with EpisodeStore.open(copy, "a") as store:
        store.writer()
        for change in (store.writer, store.delete_last_episode):
            with pytest.raises(RuntimeError, match="an episode is open"):
                change()


def test_episode_without_a_step_is_refused(copy):
    with EpisodeStore.open(copy, "a") as store:
        with pytest.raises(DataError, match="without a step"):
            store.append_episode([])
        store.append_episode(make_episode(4, 1))


def test_one_recording_at_a_time_and_readers_beside_it(copy):
    with EpisodeStore.open(copy, "a") as store:
        with pytest.raises(DataError, match="another process is recording into this data set"):
            EpisodeStore.open(copy, "a")
        writer = store.writer()
        for transition in make_episode(4, 260):
            writer.append(transition)
        with EpisodeStore.open(copy) as reader:
            assert len(reader) == 4
            assert len(reader.episode(3)) == 30
        writer.commit()
        with EpisodeStore.open(copy) as reader:
            assert_same(reader.episode(4), make_episode(4, 260))
    EpisodeStore.open(copy, "a").close()


def test_a_commit_writes_each_array_once_and_closing_cuts_them_to_length(tmp_path, monkeypatch):
    written = []
    whole = disk.write_durably
    for module in (chunks, disk):
        monkeypatch.setattr(module, "write_durably", lambda path, data: (written.append(path), whole(path, data)))
    episodes = [make_episode(number, 5) for number in range(3)]
    with EpisodeStore.create(tmp_path / "set", SPEC) as store:
        store.append_episode(episodes[0])
        for number in (1, 2):
            written.clear()
            store.append_episode(episodes[number])
            assert len(written) == len(set(written)) == len(store.records[0].crc32)
            assert not any(file.name == "zarr.json" for file in written)
        actions = zarr.open_array(tmp_path / "set" / "arrays.zarr", path="executed_action", mode="r")
        assert actions.shape[0] > 15
        # Readers beside the recorder pass over what lies beyond the committed episodes.
        with EpisodeStore.open(tmp_path / "set") as reader:
            for number, episode in enumerate(episodes):
                assert_same(reader.episode(number), episode)
        store.delete_last_episode()
        store.append_episode(episodes[2])
    lengths = {array.shape[0] for _, array in zarr.open_group(tmp_path / "set" / "arrays.zarr", mode="r").arrays()}
    assert lengths == {15}
    with EpisodeStore.open(tmp_path / "set") as store:
        for number, episode in enumerate(episodes):
            assert_same(store.episode(number), episode)


def test_a_data_set_opened_to_read_is_not_changed(copy):
    with EpisodeStore.open(copy) as store:
        for change in (store.writer, store.delete_last_episode):
            with pytest.raises(DataError, match="was opened for reading; open it with mode 'a'"):
                change()

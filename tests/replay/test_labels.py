"""Labels of a data set: kept with it, for the very episodes that they were given to."""

import fcntl
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from robo_rl.core import DataError
from robo_rl.replay import UNKNOWN, EpisodeStore, LabelBook
from tests.rigs.replay_episodes import SPEC, make_episode


@pytest.fixture
def store(tmp_path):
    with EpisodeStore.create(tmp_path / "data", SPEC) as store:
        for number, steps in enumerate((4, 6, 4)):
            store.append_episode(make_episode(number, steps))
        yield store


def labels(*values):
    return np.array(values, dtype=np.int8)


def test_labels_are_there_when_the_data_set_is_opened_again(store):
    book = LabelBook(store, 2)
    assert book.numbers == []
    book.put(2, labels(0, 0, 1, 2, UNKNOWN))
    book.put(0, labels(0, 1, 1, 1, 2))
    book.put(2, labels(2, 2, 2, 2, 2))
    with EpisodeStore.open(store.path) as opened:
        again = LabelBook(opened, 2)
    assert again.numbers == [0, 2]
    np.testing.assert_array_equal(again[0], labels(0, 1, 1, 1, 2), strict=True)
    np.testing.assert_array_equal(again[2], labels(2, 2, 2, 2, 2), strict=True)


@pytest.mark.parametrize("wrong", [labels(0, 0, 0, 0), labels(0, 0, 0, 0, 3), labels(0, 0, 0, 0, -2)])
def test_what_is_no_label_of_an_episode_is_refused(store, wrong):
    with pytest.raises(ValueError, match="expected 5 labels from -1 to 2"):
        LabelBook(store, 2).put(0, wrong)


def test_labels_are_not_taken_for_those_of_another_episode(store):
    LabelBook(store, 1).put(2, labels(0, 0, 0, 1, 1))
    store.delete_last_episode()
    with pytest.raises(DataError, match=r"episode 2 do not belong to the stored episode"):
        LabelBook(store, 1)
    store.append_episode(make_episode(7, 4))
    with pytest.raises(DataError, match=r"the episode has changed"):
        LabelBook(store, 1)
    store.delete_last_episode()
    store.append_episode(make_episode(2, 4))
    assert LabelBook(store, 1).numbers == [2]


def test_damage_and_other_stages_are_said(store):
    book, file = LabelBook(store, 1), store.path / "labels.json"
    book.put(1, labels(0, 0, 0, 1, 1, 1, 1))
    with pytest.raises(DataError, match="has labels of 1 stages, expected 3"):
        LabelBook(store, 3)
    whole = json.loads(file.read_text())
    for damage in ("", "[]", json.dumps(whole | {"format_version": 2}), json.dumps(whole | {"episodes": [{}]})):
        file.write_text(damage)
        with pytest.raises(DataError, match="is damaged"):
            LabelBook(store, 1)
    whole["episodes"][0]["labels"] = [0, 0, 0, 1, 1, 1, 300]
    file.write_text(json.dumps(whole))
    with pytest.raises(DataError, match="is damaged"):
        LabelBook(store, 1)


def test_two_people_who_label_at_once_lose_nothing_of_each_other(store):
    one, other = LabelBook(store, 1), LabelBook(store, 1)
    one.put(0, labels(0, 0, 0, 1, 1))
    other.put(2, labels(0, 1, 1, 1, 1))
    one.put(1, labels(0, 0, 0, 0, 0, 0, 1))
    assert one.numbers == LabelBook(store, 1).numbers == [0, 1, 2]
    np.testing.assert_array_equal(one[2], labels(0, 1, 1, 1, 1))


def test_a_label_waits_for_another_that_is_being_written(store):
    book = LabelBook(store, 1)
    with ThreadPoolExecutor() as threads:
        folder = os.open(store.path, os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        waiting = threads.submit(book.put, 0, labels(0, 0, 0, 1, 1))
        time.sleep(0.2)
        assert not (store.path / "labels.json").exists()
        os.close(folder)
        waiting.result(timeout=10)
    assert LabelBook(store, 1).numbers == [0]

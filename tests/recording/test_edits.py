"""Edits of data sets: episodes are selected, merged, cut, split and relabelled, and nothing of the sources is lost."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ConfigError, DataError, Transition
from robo_rl.recording.edits import EditConfig, edit
from robo_rl.replay import EpisodeStore, LabelBook

from ..rigs.command_line import robo_rl
from ..rigs.replay_episodes import SPEC, assert_same, make_episode


def configured(path: Path, output: Path, /, **options: Any) -> EditConfig:
    values = {
        "merge": [],
        "rest": None,
        "keep": None,
        "drop": [],
        "drop_flagged": [],
        "mark_success": [],
        "mark_failure": [],
        "segments": [],
        "trim": False,
        "share": 1.0,
        "seed": 0,
    }
    return EditConfig(**{"path": str(path), "output": str(output)} | values | options)


def written(path: Path, episodes: list[list[Transition]], **metadata: Any) -> Path:
    with EpisodeStore.create(path, SPEC, metadata) as store:
        store.append_episodes(episodes)
    return path


def contents(path: Path) -> list[list[Transition]]:
    with EpisodeStore.open(path) as store:
        return list(store.episodes())


def digest(path: Path) -> dict[str, str]:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return written(tmp_path / "data", [make_episode(number, 5 + number) for number in range(6)], source="human")


def resting(number: int, before: int, after: int, success: bool | None = None) -> list[Transition]:
    """An episode of 12 steps that begins and ends without motion; ``success`` from step 10 on."""
    return [
        dataclasses.replace(
            step,
            proposed_action=np.zeros(2, np.float32) if not before <= index < 12 - after else step.proposed_action,
            success=success if index >= 10 else False,
            terminated=False,
            truncated=index == 11,
        )
        for index, step in enumerate(make_episode(number, 12))
    ]


def test_the_sources_stay_as_they_are_and_all_episodes_come_back(data: Path, tmp_path: Path) -> None:
    before = digest(data)
    edit(configured(data, tmp_path / "few", drop=[1, 3]))
    edit(configured(data, tmp_path / "others", keep=[1, 3]))
    edit(configured(tmp_path / "few", tmp_path / "again", merge=[str(tmp_path / "others")]))
    assert digest(data) == before
    for found, number in zip(contents(tmp_path / "again"), (0, 2, 4, 5, 1, 3), strict=True):
        assert_same(found, make_episode(number, 5 + number))


def test_origins_lead_to_the_recording_through_several_edits(data: Path, tmp_path: Path) -> None:
    edit(configured(data, tmp_path / "one", keep=[5, 2]))
    edit(configured(tmp_path / "one", tmp_path / "two", drop=[0]))
    with EpisodeStore.open(data) as store, EpisodeStore.open(tmp_path / "two") as edited:
        checksum = store.records[5].crc32["executed_action"]
        assert edited.metadata["origins"] == [
            {"data_set": str(data), "episode": 5, "first_step": 0, "crc32": checksum, "steps": 10}
        ]
        assert edited.metadata["edited_from"] == [str(tmp_path / "one")]
        assert edited.metadata["source"] == "human"


def test_steps_without_motion_are_trimmed_but_never_the_success(tmp_path: Path) -> None:
    episodes = [resting(0, 4, 3), resting(1, 4, 3, success=True), resting(2, 12, 0)]
    edit(configured(written(tmp_path / "data", episodes), tmp_path / "trimmed", trim=True))
    first, second, third = contents(tmp_path / "trimmed")
    assert [step.sequence for step in first] == list(range(4, 9))
    assert [step.truncated for step in first] == [False] * 4 + [True]
    assert [step.sequence - 1000 for step in second] == list(range(4, 11)), "step 10 is the first success"
    assert second[-1].success
    assert_same(third, episodes[2])


def test_a_recorded_success_is_corrected(data: Path, tmp_path: Path) -> None:
    edit(configured(data, tmp_path / "marked", mark_success=[0], mark_failure=[1]))
    first, second, *rest = contents(tmp_path / "marked")
    assert (first[-1].success, first[-1].rewards["success"], first[-1].terminated) == (True, 1.0, True)
    assert (second[-1].success, second[-1].rewards["success"], second[-1].terminated) == (False, 0.0, False)
    assert second[-1].truncated
    assert first[-1].rewards["distance"] == make_episode(0, 5)[-1].rewards["distance"]
    for number, found in enumerate(rest, 2):
        assert_same(found, make_episode(number, 5 + number))
    with EpisodeStore.open(tmp_path / "marked") as store:
        assert [origin.get("success") for origin in store.metadata["origins"][:3]] == [True, False, None]


def test_a_split_puts_every_episode_in_one_of_two_data_sets(data: Path, tmp_path: Path) -> None:
    options = {"share": 0.7, "seed": 3}
    edit(configured(data, tmp_path / "train", rest=str(tmp_path / "test"), **options))
    parts = [[episode[0].episode for episode in contents(tmp_path / name)] for name in ("train", "test")]
    assert [len(part) for part in parts] == [4, 2]
    assert sorted(parts[0] + parts[1]) == list(range(6))
    edit(configured(data, tmp_path / "again", rest=str(tmp_path / "again_rest"), **options))
    assert [episode[0].episode for episode in contents(tmp_path / "again")] == parts[0]


def test_labels_and_instructions_go_with_their_episodes(tmp_path: Path) -> None:
    path = written(tmp_path / "data", [resting(number, 4, 3) for number in range(3)], instructions=["a", "b", "c"])
    with EpisodeStore.open(path) as store:
        LabelBook(store, 3).put(2, np.arange(13, dtype=np.int8) // 4)
    edit(configured(path, tmp_path / "edited", drop=[0], trim=True))
    with EpisodeStore.open(tmp_path / "edited") as store:
        book = LabelBook(store, 3)
        assert book.numbers == [1]
        assert book[1].tolist() == [1, 1, 1, 1, 2, 2]
        assert store.metadata["instructions"] == ["b", "c"]


def test_a_corrected_success_counts_for_flags_and_in_every_step(tmp_path: Path) -> None:
    data = written(tmp_path / "data", [resting(number, 4, 3, success=number != 1) for number in range(3)])
    settings = configured(data, tmp_path / "all", mark_success=[1], mark_failure=[2], trim=True)
    edit(settings)
    first, second, third = contents(tmp_path / "all")
    assert [step.success for step in first[-2:]] == [False, True]
    assert second[-1].success
    assert not any(step.success for step in third) and len(third) == 5, "steps 9 and 10 had been kept for the success"
    edit(dataclasses.replace(settings, output=str(tmp_path / "few"), drop_flagged=["failure"]))
    assert [episode[0].episode for episode in contents(tmp_path / "few")] == [0, 1]
    edit(dataclasses.replace(settings, output=str(tmp_path / "whole"), trim=False))
    assert not any(step.success or step.rewards["success"] for step in contents(tmp_path / "whole")[2][-2:])


def test_segments_become_episodes(data: Path, tmp_path: Path) -> None:
    with EpisodeStore.open(data) as store:
        LabelBook(store, 3).put(2, np.arange(8, dtype=np.int8) // 3)
    counts: list[tuple[int, int]] = []
    settings = configured(data, tmp_path / "cut", keep=[1, 2], segments=["2:4-6:failure", "2:0-3:success"])
    edit(settings, lambda done, all_of_them: counts.append((done, all_of_them)))
    assert counts == [(1, 3), (2, 3), (3, 3)]
    whole, first, second = contents(tmp_path / "cut")
    assert_same(whole, make_episode(1, 6))
    original = make_episode(2, 7)
    assert_same(first[:-1], original[:2])
    assert (first[-1].terminated, first[-1].truncated, first[-1].success) == (True, False, True)
    assert [step.sequence for step in second] == [step.sequence for step in original[4:6]]
    assert (second[-1].terminated, second[-1].truncated) == (False, True)
    assert not any(step.success for step in second)
    with EpisodeStore.open(tmp_path / "cut") as store:
        book = LabelBook(store, 3)
        assert (book[1].tolist(), book[2].tolist()) == ([0, 0, 0, 1], [1, 1, 2])
        origins = store.metadata["origins"]
        assert [(each["episode"], each["first_step"], each["steps"]) for each in origins] == [
            (1, 0, 6),
            (2, 0, 3),
            (2, 4, 2),
        ]


def test_flags_are_those_of_each_data_set_by_itself(data: Path, tmp_path: Path) -> None:
    """Episodes of 40 steps are not usual in the first data set, but they are in the second."""
    other = written(tmp_path / "other", [make_episode(number, 40) for number in range(6)])
    edit(configured(data, tmp_path / "all", merge=[str(other)], drop_flagged=["length"]))
    assert len(contents(tmp_path / "all")) == 12


def test_nothing_is_left_of_a_split_that_fails(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def append_episode(store: EpisodeStore, transitions: list[Transition]) -> int:
        calls.append(transitions)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return store.append_episodes([transitions])

    monkeypatch.setattr(EpisodeStore, "append_episode", append_episode)
    with pytest.raises(KeyboardInterrupt):
        edit(configured(data, tmp_path / "train", rest=str(tmp_path / "test"), share=0.7))
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_cannot_be_done_is_refused(data: Path, tmp_path: Path) -> None:
    other = dataclasses.replace(SPEC, control_rate=20.0)
    with EpisodeStore.create(tmp_path / "fast", other) as store:
        store.append_episode(make_episode(0, 4))
    output = tmp_path / "output"
    for message, options in (
        ("drop: there is no episode 6; there are 6, counted from 0", {"drop": [6]}),
        ("no episode is left", {"drop": list(range(6))}),
        ("merge: .*data is listed twice", {"merge": [str(data.parent / "." / "data")]}),
        ("output: .* is in the data set", {"output": str(data / "clean")}),
        ("rest: .* is in the data set", {"share": 0.5, "rest": str(output)}),
        ("drop_flagged must be flags of failure", {"drop_flagged": ["tired"]}),
        ("mark_success must be no episode of mark_failure", {"mark_success": [1], "mark_failure": [1]}),
        ("segments must be no episode of drop", {"drop": [1], "segments": ["1:0-2"]}),
        ("segments must be no episode of mark_success", {"mark_success": [1], "segments": ["1:0-2"]}),
        ("segments: '1:2-2' is not a segment; expected EPISODE:FIRST-STOP", {"segments": ["1:2-2"]}),
        ("segments: '1:0-2:good' is not a segment", {"segments": ["1:0-2:good"]}),
        ("segments: there is no episode 6 among those that are kept", {"segments": ["6:0-2"]}),
        ("segments: there is no episode 2 among those that are kept", {"keep": [1], "segments": ["2:0-2"]}),
        ("segments: episode 1 has 6 steps; none can end at 7", {"segments": ["1:0-7"]}),
        ("segments: two of episode 1 share step 1", {"segments": ["1:1-3", "1:0-2"]}),
        ("rest must be a folder if share is below 1", {"share": 0.5}),
        ("share must be", {"share": 0.0, "rest": "x"}),
    ):
        with pytest.raises(ConfigError, match=message):
            edit(configured(data, output, **options))
    with pytest.raises(DataError, match="recorded for another task or setting: control_rate"):
        edit(configured(data, output, merge=[str(tmp_path / "fast")]))
    assert not list(tmp_path.glob("output*")), "nothing is left behind"


def test_the_commands_describe_and_edit(tmp_path: Path) -> None:
    data = written(tmp_path / "data", [resting(number, 4, 3) for number in range(3)])
    printed = robo_rl("data", "describe", f"path={data}", f"output={tmp_path / 'data.json'}")
    assert "3 episodes, 36 steps" in printed and "clock: time does not advance" not in printed
    assert '"idle_start": 4' in (tmp_path / "data.json").read_text()
    printed = robo_rl("data", "edit", f"path={data}", f"output={tmp_path / 'new'}", "trim=true", "drop=[0]")
    assert printed.strip() == f"{tmp_path / 'new'} holds 2 episodes, 0 successful: 10 steps"
    again = robo_rl("data", "edit", f"path={data}", f"output={tmp_path / 'new'}", code=2)
    assert "output" in again and "already exists" in again
    assert "no flag" not in robo_rl("data", "describe", "--help")

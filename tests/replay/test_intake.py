"""The intake: each step once, in order, on the disk before it counts as settled."""

import dataclasses
import errno
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from robo_rl.core import DataError, Refusal, RewardWeights, SessionProgress, Source, Transition
from robo_rl.replay import EpisodeStore, Intake, ReplayRing
from robo_rl.replay import intake as module

from ..rigs.replay_episodes import SPEC, assert_same, make_episode


def steps_of(session: int, lengths: list[int], actor: str = "robot", last_end: str = "terminated") -> list[Transition]:
    """Episodes of one session, numbered as an actor does."""
    steps: list[Transition] = []
    for number, length in enumerate(lengths):
        end = last_end if number == len(lengths) - 1 else "terminated"
        for step in make_episode(100 * session + number, length, end=end):
            changes = {"actor": actor, "session": session, "episode": number, "sequence": len(steps)}
            steps.append(dataclasses.replace(step, **changes))
    return steps


def stored(path: Path) -> list[list[Transition]]:
    with EpisodeStore.open(path / "episodes") as store:
        return [store.episode(number) for number in range(len(store))]


def test_episodes_are_stored_when_they_end_and_settled_then(tmp_path: Path) -> None:
    intake = Intake(tmp_path, SPEC)
    session = intake.open_session("robot", 0)
    assert session == 1
    steps = steps_of(1, [5, 4, 6], last_end="")
    intake.offer("robot", 1, steps[:12])
    assert intake.flush(120)
    assert intake.progress("robot", 1) == SessionProgress(wanted=12, settled=9, stored=9, refused=0)
    assert_same(intake.take(), steps[:12])
    assert intake.take() == []
    intake.offer("robot", 1, steps[8:15])
    assert_same(intake.take(), steps[12:])
    intake.close_session("robot", 1)
    assert intake.flush(120)
    assert intake.progress("robot", 1) == SessionProgress(15, 15, 15, 0)
    assert intake.totals() == (15, 15, 0, 4)
    with pytest.raises(DataError, match="step 20 of session 1 of 'robot' came before step 15"):
        intake.offer("robot", 1, [dataclasses.replace(steps[0], sequence=20)])
    intake.close()
    for found, wanted in zip(stored(tmp_path), [steps[:5], steps[5:9], steps[9:]], strict=True):
        assert_same(found, wanted)


def test_a_refusal_is_counted_on_the_disk_and_nothing_is_paired_across_it(tmp_path: Path) -> None:
    intake = Intake(tmp_path, SPEC)
    intake.open_session("robot", 0)
    steps = steps_of(1, [9])
    tail = [dataclasses.replace(step, observation=dict(step.observation)) for step in steps[5:]]
    intake.offer("robot", 1, [*steps[:3], Refusal(3, 2, "not finite"), tail[0], *steps[6:]])
    assert intake.flush(120)
    assert intake.progress("robot", 1) == SessionProgress(9, 9, 7, 2)
    intake.close()
    first, second = stored(tmp_path)
    assert_same(first, steps[:3])
    assert_same(second, steps[5:])
    again = Intake(tmp_path, SPEC)
    assert again.progress("robot", 1) == SessionProgress(9, 9, 7, 2)
    assert again.totals() == (9, 7, 2, 0)
    again.close()


def test_refusals_in_a_row_share_a_line_of_the_ledger(tmp_path: Path) -> None:
    """An actor that sends what is refused, with another reason each time, does not fill the disk."""
    intake = Intake(tmp_path, SPEC)
    for actor in ("robot", "other"):
        intake.open_session(actor, 0)
    for number in range(5000):
        for actor in ("robot", "other"):
            intake.offer(actor, 1, [Refusal(number, 1, f"reason {number}")])
    assert intake.flush(120)
    assert intake.progress("robot", 1) == SessionProgress(5000, 5000, 0, 5000)
    intake.close()
    assert (tmp_path / "ledger.jsonl").stat().st_size < 10_000
    again = Intake(tmp_path, SPEC)
    for actor in ("robot", "other"):
        assert again.progress(actor, 1) == SessionProgress(5000, 5000, 0, 5000)
    again.close()


def test_after_a_restart_what_was_not_settled_is_wanted_again(tmp_path: Path) -> None:
    intake = Intake(tmp_path, SPEC)
    intake.open_session("robot", 0)
    steps = [dataclasses.replace(step, source=Source.POLICY) for step in steps_of(1, [5, 4])]
    steps[3:7] = [dataclasses.replace(step, source=Source.HUMAN) for step in steps[3:7]]
    intake.offer("robot", 1, steps[:7])
    assert intake.flush(120)
    intake.close()
    intake = Intake(tmp_path, SPEC)
    assert intake.has_session("robot", 1) and not intake.has_session("robot", 2)
    assert intake.progress("robot", 1) == SessionProgress(5, 5, 5, 0)
    intake.offer("robot", 1, steps[5:])
    assert intake.flush(120)
    ring = ReplayRing(100, SPEC)
    intake.close()
    intake = Intake(tmp_path, SPEC)
    assert intake.recover(ring) == len(ring) == 9
    assert len(ring.rows.available.interventions) == 4, "as ever: by whom a step was is stored with it"
    small = ReplayRing(7, SPEC)
    assert intake.recover(small) == 4, "the newest episodes that fit"
    intake.close()


def test_sessions_have_numbers_that_never_come_again(tmp_path: Path) -> None:
    intake = Intake(tmp_path, SPEC)
    assert [intake.open_session("a", 0), intake.open_session("a", 0), intake.open_session("b", 7)] == [1, 2, 8]
    intake.close()
    intake = Intake(tmp_path, SPEC)
    assert [intake.open_session("a", 0), intake.open_session("b", 0)] == [3, 9]
    intake.close()


def test_several_actors_take_turns(tmp_path: Path) -> None:
    intake = Intake(tmp_path, SPEC)
    streams = {}
    for actor in ("left", "right"):
        intake.open_session(actor, 0)
        streams[actor] = steps_of(1, [6, 5], actor)
    for number in range(11):
        for actor, steps in streams.items():
            intake.offer(actor, 1, [steps[number]])
    assert intake.flush(120)
    ring = ReplayRing(100, SPEC)
    taken = intake.take()
    ring.append(taken)
    assert [step.actor for step in taken] == ["left", "right"] * 11
    assert ring.memory_bytes and len(ring) == 22
    ring.rows.everything(RewardWeights({"success": 1.0}))
    intake.close()
    assert sorted((episode[0].actor, len(episode)) for episode in stored(tmp_path)) == [
        ("left", 5),
        ("left", 6),
        ("right", 5),
        ("right", 6),
    ]


def test_a_full_disk_blocks_and_goes_on_when_it_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.02)
    intake = Intake(tmp_path, SPEC)
    intake.open_session("robot", 0)
    steps = steps_of(1, [5, 4])
    append = EpisodeStore.append_episodes

    def refuse(*_: object) -> int:
        raise DataError("no space left; free space")

    monkeypatch.setattr(EpisodeStore, "append_episodes", refuse)
    intake.offer("robot", 1, steps)
    deadline = time.monotonic() + 120
    while not intake.blocked() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert intake.blocked() == "no space left; free space"
    assert intake.progress("robot", 1).settled == 0
    monkeypatch.setattr(EpisodeStore, "append_episodes", append)
    assert intake.flush(120) and intake.blocked() == ""
    assert intake.progress("robot", 1) == SessionProgress(9, 9, 9, 0)
    intake.close()
    assert [len(episode) for episode in stored(tmp_path)] == [5, 4]


def test_a_refusal_told_is_kept_when_the_disk_fills_in_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one thread brings a refusal to the disk another's line is not taken: what is cut off is that line alone."""
    intake = Intake(tmp_path, SPEC)
    intake.open_session("robot", 0)
    storing, go_on, fsync = threading.Event(), threading.Event(), os.fsync

    def slow_disk(descriptor: int) -> None:
        if threading.current_thread().name == "intake-store":
            storing.set()
            assert go_on.wait(60)
        fsync(descriptor)

    def full_disk(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", slow_disk)
    intake.offer("robot", 1, [Refusal(0, 1, "not finite")])
    assert storing.wait(60)
    monkeypatch.setattr(os, "write", full_disk)
    with ThreadPoolExecutor(1) as other:
        joining = other.submit(intake.open_session, "other", 0)
        time.sleep(0.2)
        go_on.set()
        with pytest.raises(DataError, match="No space left"):
            joining.result(60)
    monkeypatch.undo()
    assert intake.flush(60) and intake.progress("robot", 1).refused == 1
    intake.close()
    again = Intake(tmp_path, SPEC)
    assert again.progress("robot", 1).refused == 1
    again.close()


def test_a_busy_learner_blocks(tmp_path: Path) -> None:
    intake = Intake(tmp_path, SPEC, backlog_bytes=10_000)
    intake.open_session("robot", 0)
    intake.offer("robot", 1, steps_of(1, [8]))
    assert intake.flush(120)
    assert intake.blocked() == "the learner is busy"
    intake.take()
    assert intake.blocked() == ""
    intake.close()


def test_open_episodes_of_many_actors_do_not_block_their_own_end(tmp_path: Path) -> None:
    intake = Intake(tmp_path, SPEC, backlog_bytes=20_000)
    steps = {name: steps_of(1, [12], actor=name) for name in ("one", "two", "three")}
    for name in steps:
        intake.open_session(name, 0)
    for number in range(12):
        for name in steps:
            assert intake.flush(120)
            assert intake.blocked() == "", f"after {number} steps: nothing waits for the disk"
            intake.offer(name, 1, [steps[name][number]])
            intake.take()
    assert intake.flush(120)
    assert intake.totals() == (36, 36, 0, 0)
    assert intake.blocked() == ""
    intake.close()


def test_a_folder_of_another_environment_is_refused(tmp_path: Path) -> None:
    Intake(tmp_path, SPEC).close()
    other = dataclasses.replace(SPEC, control_rate=20.0)
    with pytest.raises(DataError, match=r"control_rate: expected 20.0, found 10.0"):
        Intake(tmp_path, other)
    Intake(tmp_path, SPEC).close()


def test_a_damaged_ledger_is_named(tmp_path: Path) -> None:
    Intake(tmp_path, SPEC).close()
    with (tmp_path / "ledger.jsonl").open("a") as stream:
        stream.write('{"actor": "robot"}\n')
    with pytest.raises(DataError, match=r"ledger.jsonl: line 1 is damaged"):
        Intake(tmp_path, SPEC)

"""Commands that write data sets, killed between any two changes of files: whole or nothing, and a second start works.

A child counts the files that it opens to write, renames, removes and flushes, and kills itself at one of them.
"""

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from robo_rl.commands.export import write_export
from robo_rl.commands.import_ import import_data_set
from robo_rl.core import DataError, draft_of, remove_abandoned_drafts
from robo_rl.recording.edits import EditConfig, edit
from robo_rl.recording.episodes import open_data_set
from robo_rl.replay import EpisodeStore
from robo_rl.replay.interchange import ForeignConfig

from ..rigs.interchange import FORMATS, LENGTHS, record
from ..rigs.replay_episodes import SPEC, assert_same, make_episode

KILLS = 3
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}


def run_to(moment: int, folder: Path, work: Callable[[], Any]) -> tuple[int, int]:
    """Run ``work`` in a child that kills itself at change number ``moment`` of files in ``folder``; 0: never.

    Returns its exit code (-9 if it was killed) and the number of changes until then.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        count, fsync = 0, os.fsync

        def change() -> None:
            nonlocal count
            count += 1
            os.write(writing, b".")
            if count == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        def flush(file: int) -> None:
            change()
            fsync(file)

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            is_opened = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if (is_opened or event in CHANGES) and str(folder) in str(arguments[0]):
                change()

        os.fsync = flush
        sys.addaudithook(hook)
        try:
            work()
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        count = len(stream.read())
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status), count


def kill_at_many_moments(folder: Path, work: Callable[[], Any], check: Callable[[bool], None]) -> None:
    """Kill ``work`` at many moments; after each, call ``check`` with whether a second start was made and ended well."""
    folder.mkdir()
    code, count = run_to(0, folder, work)
    assert code == 0 and count > 3
    check(True)
    killed = 0
    moments = {1, count - 2, count - 1, count, *random.Random(0).sample(range(1, count + 1), min(KILLS, count))}
    for moment in sorted(moments):
        for file in folder.iterdir():
            file.rename(folder.parent / f"removed-{len(list(folder.parent.iterdir()))}")
        code, _ = run_to(moment, folder, work)
        assert code in (-9, 0)  # 0: what is written beside the files themselves takes a few changes more or less
        killed += code == -9
        check(code == 0)
        run_to(0, folder, work)
        check(True)
    assert killed > KILLS


def contents(path: Path) -> list[list[Any]]:
    with EpisodeStore.open(path) as store:
        return [store.episode(number) for number in range(len(store))]


def test_an_edit_is_whole_or_not_there(tmp_path: Path) -> None:
    store, _ = record(tmp_path / "source")
    store.close()
    output, rest = tmp_path / "work" / "chosen", tmp_path / "work" / "rest"
    options = EditConfig(
        path=str(tmp_path / "source"), output=str(output), rest=str(rest), share=0.5, seed=0, merge=[], keep=None,
        drop=[], drop_flagged=[], mark_success=[], mark_failure=[], segments=[], trim=False,
    )  # fmt: skip

    def write() -> None:
        for path in (output, rest):
            remove_abandoned_drafts(path)
        if rest.exists():
            return
        if output.exists():  # the message of a second start says so
            output.rename(tmp_path / f"removed-{len(list(tmp_path.iterdir()))}")
        edit(options)

    def check(is_done: bool) -> None:
        steps = [len(episode) for path in (output, rest) if path.exists() for episode in contents(path)]
        if is_done:
            assert sorted(file.name for file in output.parent.iterdir()) == ["chosen", "rest"]
            assert sorted(steps) == sorted(LENGTHS)
        assert set(steps) <= set(LENGTHS)

    kill_at_many_moments(tmp_path / "work", write, check)


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("lerobot_v21", "rosbag_sqlite3")])
def test_an_export_is_whole_or_not_there(name: str, tmp_path: Path) -> None:
    store, _ = record(tmp_path / "source")
    output = tmp_path / "work" / "out.hdf5"

    def write() -> None:
        remove_abandoned_drafts(output)
        if not output.exists():
            write_export(FORMATS[name], store, None, output)

    def check(is_done: bool) -> None:
        if is_done or output.exists():
            episodes = list(FORMATS[name].load(output, ForeignConfig()).episodes())
            assert [episode.record.steps for episode in episodes] == list(LENGTHS)
        if is_done:
            assert len(list(output.parent.iterdir())) == 1

    kill_at_many_moments(tmp_path / "work", write, check)


def test_an_import_is_whole_or_not_there(tmp_path: Path) -> None:
    store, _ = record(tmp_path / "source")
    foreign, output = tmp_path / "foreign.hdf5", tmp_path / "work" / "data"
    write_export(FORMATS["robomimic"], store, None, foreign)
    # What is imported on first use is there for all children.
    import_data_set(FORMATS["robomimic"], foreign, tmp_path / "first", ForeignConfig())

    def write() -> None:
        remove_abandoned_drafts(output)  # as the command does, before it looks whether its output exists
        if not output.exists():
            import_data_set(FORMATS["robomimic"], foreign, output, ForeignConfig())

    def check(is_done: bool) -> None:
        if is_done or output.exists():
            assert [len(episode) for episode in contents(output)] == list(LENGTHS)
        if is_done:
            assert [file.name for file in output.parent.iterdir()] == ["data"]

    kill_at_many_moments(tmp_path / "work", write, check)


def test_a_recording_that_is_continued_loses_no_episode_that_was_finished(tmp_path: Path) -> None:
    path = tmp_path / "work" / "data"

    def write() -> None:
        with open_data_set(path, SPEC, "append", {}) as store:
            for number in range(len(store), len(store) + 3):
                store.append_episode(make_episode(number, 4))
                (path.parent / f"stored{number}").touch()

    def check(is_done: bool) -> None:
        episodes = contents(path) if (path / "dataset.json").exists() else []
        assert len(episodes) >= len(list(path.parent.glob("stored*")))
        for number, episode in enumerate(episodes):
            assert_same(episode, make_episode(number, 4))

    kill_at_many_moments(tmp_path / "work", write, check)


def test_a_recording_that_replaces_another_loses_neither(tmp_path: Path) -> None:
    path = tmp_path / "work" / "data"

    def write() -> None:
        with open_data_set(path, SPEC, "overwrite" if path.exists() else "fail", {}) as store:
            for number in range(2):
                store.append_episode(make_episode(number, 4))

    def replace() -> None:
        if not path.exists():
            write()
        with open_data_set(path, SPEC, "overwrite", {}) as store:
            store.append_episode(make_episode(7, 3))

    def check(is_done: bool) -> None:
        earlier = path.with_name("data.replaced")
        held = [contents(each) for each in (path, earlier) if each.exists() and (each / "dataset.json").exists()]
        for episodes in held:
            for number, episode in enumerate(episodes):
                expected = make_episode(7, 3) if len(episode) == 3 else make_episode(number, 4)
                assert_same(episode, expected)

    kill_at_many_moments(tmp_path / "work", replace, check)
    other = tmp_path / "other"
    with open_data_set(other.with_name("other.replaced"), SPEC, "fail", {}) as store:
        store.append_episode(make_episode(0, 4))
    for how in ("fail", "append", "overwrite"):
        with (
            pytest.raises(DataError, match="was left by a recording that was killed"),
            open_data_set(other, SPEC, how, {}),
        ):
            pass
    assert len(contents(other.with_name("other.replaced"))) == 1


def test_drafts_leave_nothing_at_any_moment(tmp_path: Path) -> None:
    output = tmp_path / "work" / "data"

    def write() -> None:
        with draft_of(output) as draft:
            if not output.exists():
                draft.mkdir()
                (draft / "file").write_text("whole")
                draft.replace(output)

    def check(is_done: bool) -> None:
        if is_done or output.exists():
            assert (output / "file").read_text() == "whole"
        if is_done:
            assert [file.name for file in output.parent.iterdir()] == ["data"]

    kill_at_many_moments(tmp_path / "work", write, check)

"""Drafts: whole or nothing, and what killed processes leave is removed by the next one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import robo_rl.rewards
from robo_rl.core import draft_of, scratch_folder
from robo_rl.replay import EpisodeStore

from ..rigs.replay_episodes import SPEC

KILLED = """
import os, signal, sys
from pathlib import Path
import robo_rl.rewards
from robo_rl.core import draft_of, scratch_folder
with draft_of(Path(sys.argv[1])) as draft:
    draft.mkdir()
    (draft / "file").write_text("half")
    if sys.argv[2] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    print(flush=True)
    sys.stdin.readline()
    draft.replace(sys.argv[1])
"""


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def start(path: Path, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", KILLED, str(path), how]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_draft_is_moved_to_its_place_and_nothing_else_is_left(tmp_path: Path) -> None:
    output = tmp_path / "new" / "data"
    with draft_of(output) as draft:
        assert draft.name == "data" and draft.parent.name.startswith(f"data.partial-{os.getpid()}-")
        draft.mkdir()
        (draft / "file").write_text("whole")
        draft.replace(output)
    assert names(output.parent) == ["data"] and (output / "file").read_text() == "whole"


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), draft_of(tmp_path / "data") as draft:
        draft.mkdir()
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_drafts_of_killed_processes_are_removed_and_those_of_living_ones_are_not(tmp_path: Path) -> None:
    output = tmp_path / "data"
    assert start(output, "die").wait(60) == -9
    (tmp_path / "data.partial-123").mkdir()  # of an earlier version, or a process that got the number again
    (tmp_path / "data.partial-123" / "file").write_text("half")
    (tmp_path / "data.partial-1x").mkdir()  # somebody's own, as are these
    (tmp_path / "other.partial-123").mkdir()
    (tmp_path / "data.partial-7").symlink_to(tmp_path / "other.partial-123")
    assert len(names(tmp_path)) == 5
    living = start(output, "live")
    assert living.stdout is not None and living.stdout.readline()
    with draft_of(output) as draft:
        draft.mkdir()
        kept = ["data.partial-1x", "data.partial-7", "other.partial-123"]
        (foreign,) = tmp_path.glob(f"data.partial-{living.pid}-*")
        assert names(tmp_path) == sorted([draft.parent.name, foreign.name, *kept])
    living.communicate("\n", timeout=60)
    assert living.returncode == 0 and names(tmp_path) == sorted(["data", *kept])


def test_a_data_set_that_is_made_removes_what_was_left(tmp_path: Path) -> None:
    assert start(tmp_path / "data", "die").wait(60) == -9
    EpisodeStore.create(tmp_path / "data", SPEC).close()
    assert names(tmp_path) == ["data"]


SCRATCH = """
import os, signal, sys
from robo_rl.core import scratch_folder
with scratch_folder() as outer, scratch_folder() as inner:
    (outer / "large").write_text("a bag")
    if sys.argv[1] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    print(flush=True)
    sys.stdin.readline()
"""


def test_scratch_folders_of_killed_processes_are_removed_and_those_of_living_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    environment = os.environ | {"TMPDIR": str(tmp_path)}

    def begin(how: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SCRATCH, how]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path.parent
        )

    assert begin("die").wait(60) == -9 and len(names(tmp_path)) == 2
    (tmp_path / "robo-rl.partial-thesis").mkdir()
    living = begin("live")
    assert living.stdout is not None and living.stdout.readline()
    own = [f"robo-rl.partial-{living.pid}-", "robo-rl.partial-thesis"]
    assert all(name.startswith(tuple(own)) for name in names(tmp_path)) and len(names(tmp_path)) == 3
    with scratch_folder() as first, scratch_folder() as second, scratch_folder(tmp_path / "robo-rl.partial-thesis"):
        assert first != second and len(names(tmp_path)) == 5
    with pytest.raises(KeyboardInterrupt), scratch_folder():
        raise KeyboardInterrupt
    living.communicate("\n", timeout=60)
    assert names(tmp_path) == ["robo-rl.partial-thesis"] and names(tmp_path / "robo-rl.partial-thesis") == []


def test_no_temporary_folder_is_made_otherwise() -> None:
    sources = [*Path(robo_rl.__file__).parent.rglob("*.py"), *Path(robo_rl.rewards.__file__).parent.rglob("*.py")]
    assert [file.name for file in sources if "TemporaryDirectory(" in file.read_text()] == []

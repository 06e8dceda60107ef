"""Folders of runs from elsewhere: a run writes to files of its own alone."""

import os
import re
import socket
from pathlib import Path

import pytest

from robo_rl.core import ConfigError
from robo_rl.training.run_folder import ENTRIES, require_own_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a run, with a link and a pipe of somebody's own beside what the run writes."""
    run = tmp_path / "run"
    (run / "checkpoints" / "step_000000001").mkdir(parents=True)
    (run / "checkpoints" / "step_000000001" / "manifest.json").write_text("{}")
    (run / "metrics.jsonl").write_text("")
    (run / "notes").symlink_to("/etc")
    os.mkfifo(run / "pipe")
    (run / "wandb" / "run-1").mkdir(parents=True)
    (run / "wandb" / "latest-run").symlink_to("run-1")
    return run


def test_files_and_folders_pass_and_so_does_what_runs_do_not_write(folder: Path, tmp_path: Path) -> None:
    require_own_files(folder)
    (tmp_path / "link").symlink_to(folder)
    require_own_files(tmp_path / "link")  # the user named it
    require_own_files(tmp_path / "new")


@pytest.mark.parametrize("name", [*ENTRIES, "checkpoints/step_000000001/replay.safetensors", "videos/a/b.mp4.partial"])
@pytest.mark.parametrize("target", ["/", "/nowhere/at/all", "metrics.jsonl"])
def test_a_link_where_a_run_writes_is_refused(folder: Path, name: str, target: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.rename(folder / "moved")
    path.symlink_to(target)
    with pytest.raises(ConfigError, match=f"{re.escape(str(path))} is a link to {re.escape(target)}, and a run writes"):
        require_own_files(folder)


@pytest.mark.parametrize("name", ["curve.png", "live/lock", "replay/data/pipe"])
def test_a_pipe_or_socket_where_a_run_writes_is_refused(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    with pytest.raises(ConfigError, match=f"{re.escape(str(path))} is neither a file nor a folder"):
        require_own_files(folder)
    path.unlink()
    monkeypatch.chdir(path.parent)  # the address of a socket has to be short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)
        with pytest.raises(ConfigError, match=f"{re.escape(str(path))} is neither a file nor a folder"):
            require_own_files(folder)

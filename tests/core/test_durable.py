"""Files that are whole or as they were, whoever else writes them and whatever ends the process."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from robo_rl.core import write_durably

KILLED = """
import os, signal, sys
from pathlib import Path
from robo_rl.core import write_durably
os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
write_durably(Path(sys.argv[1]), b"half")
"""


def names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


@pytest.mark.parametrize("without_names", [True, False])
def test_several_write_the_same_file_at_once(
    without_names: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not without_names:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    file, errors = tmp_path / "report.html", []

    def write(content: bytes) -> None:
        try:
            for _ in range(20):
                write_durably(file, content * 100_000)
                assert len(set(file.read_bytes())) == 1
        except (OSError, AssertionError) as error:
            errors.append(error)

    writers = [threading.Thread(target=write, args=(content,)) for content in (b"a", b"b", b"c")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert errors == [] and names(tmp_path) == ["report.html"]


def test_a_killed_process_leaves_the_file_as_it_was_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(b"whole")
    assert subprocess.run([sys.executable, "-c", KILLED, str(file)], timeout=60).returncode == -9
    assert file.read_bytes() == b"whole" and names(tmp_path) == ["report.html"]


@pytest.mark.parametrize("problem", ["full disk", "a folder of that name", "a name that is too long"])
@pytest.mark.parametrize("without_names", [True, False])
def test_a_file_that_cannot_be_written_leaves_nothing(
    problem: str, without_names: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not without_names:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    file = tmp_path / ("x" * (300 if "long" in problem else 200))
    if problem == "full disk":
        monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    elif "folder" in problem:
        (file / "precious").mkdir(parents=True)
    before = names(tmp_path)
    with pytest.raises(OSError):
        write_durably(file, b"new")
    assert names(tmp_path) == before


def test_a_new_file_has_the_rights_of_the_process(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_durably(tmp_path / "a", b"new")
    finally:
        os.umask(mask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640

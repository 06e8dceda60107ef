"""Where commands write what they make, looked at before they work."""

from pathlib import Path

import pytest

from robo_rl.cli import main
from robo_rl.command_line.destination import new_output
from robo_rl.core import ConfigError

from ..rigs.command_line import exit_code


def test_a_path_in_folders_that_are_not_there_is_good(tmp_path: Path) -> None:
    path = tmp_path / "some" / "folder" / "model"
    assert new_output("output", str(path), "file") == path
    assert list(path.parent.iterdir()) == []


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^output: .* already exists; choose another folder, or remove it$"):
        new_output("output", str(tmp_path), "folder")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["vision", "pretrain", "pictures.tasks=[none]"], "output"),
        (["safety", "learn", "path=nowhere", "keep=true"], "output"),
        (["reward", "write", "code.goal=lift", "writer.endpoint.model=none", "code.previous=nowhere"], "code.output"),
        (["label", "label.path=nowhere"], "label.output"),
        (["export", "path=nowhere", "format=lerobot"], "output"),
        (["import", "path=nowhere", "format=rlds"], "output"),
        (["data", "edit", "path=nowhere"], "output"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_commands_say_that_they_cannot_write_before_they_begin(
    words: list[str], option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has another mistake too, which they come to as soon as they begin."""
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "model"
    assert exit_code(*words, f"{option}={path}") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert f"{option}: {path} cannot be written" in error and "; choose another" in error


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["eval", "+task.size=1"], "video"),
        (["eval", "+task.size=1"], "output"),
        (["reward", "inspect", "path=nowhere"], "output"),
    ],
)
def test_what_may_be_replaced_must_be_writable_too(
    words: list[str], option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has another mistake too, which they come to as soon as they begin."""
    (tmp_path / "config.yaml").write_text("choices: {task: reach}\n")
    with pytest.raises(SystemExit):
        main([*words, f"run={tmp_path}", f"{option}=/proc/new.html"])
    assert f"{option}: /proc/new.html cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "option", "file"),
    [
        (["view", "path=nowhere"], "save", "new.rrd"),
        (["view", "path=nowhere"], "export", "new.mp4"),
        (["data", "describe", "path=nowhere"], "output", "new.html"),
        (["calibrate", "camera", "pictures=nowhere"], "output", "new.json"),
        (["deploy", "run=nowhere"], "output", "new.onnx"),
    ],
)
def test_files_that_are_made_of_data_must_be_writable_before_it_is_read(
    words: list[str], option: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*words, f"{option}=/proc/{file}") == 2
    assert f"{option}: /proc/{file} cannot be written" in " ".join(capsys.readouterr().err.split())


def test_a_report_says_that_it_cannot_be_written_before_it_reads_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text("seed: 0\n")
    for option, file in (("output", "/proc/new.html"), ("table", "/proc/new.md")):
        with pytest.raises(SystemExit):
            main(["report", f"runs={tmp_path}", f"output={tmp_path}/page.html", f"{option}={file}"])
        captured = capsys.readouterr()
        assert f"{option}: {file} cannot be written" in captured.err and not captured.out

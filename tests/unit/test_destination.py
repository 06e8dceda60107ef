"""Where commands write what they make, looked at before they work."""

from pathlib import Path

import pytest

from robo_rl.cli import main
from robo_rl.commands.destination import new_output
from robo_rl.core import ConfigError


def test_a_path_in_folders_that_are_not_there_is_good(tmp_path: Path) -> None:
    path = tmp_path / "some" / "folder" / "model"
    assert new_output("output", str(path), "file") == path
    assert list(path.parent.iterdir()) == []


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^output: .* is there already; give another folder, or remove it$"):
        new_output("output", str(tmp_path), "folder")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["vision", "pretrain", "pictures.tasks=[none]"], "output"),
        (["safety", "learn", "path=nowhere", "keep=true"], "output"),
        (["reward", "write", "code.goal=lift", "writer.endpoint.model=none", "code.previous=nowhere"], "code.output"),
        (["label", "label.path=nowhere"], "label.output"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_commands_say_that_they_cannot_write_before_they_begin(
    words: list[str], option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has another mistake too, which they come to as soon as they begin."""
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "model"
    with pytest.raises(SystemExit) as caught:
        main([*words, f"{option}={path}"])
    assert caught.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{option}: {path} cannot be written" in said and "; give another" in said

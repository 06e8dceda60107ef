"""Texts of others on their way to a terminal."""

from pathlib import Path

import pytest

from robo_rl.core import printable

from ..rigs.command_line import exit_code

HOSTILE = (
    "\x1b[2J",
    "\x9b2J",
    "\x1b]0;title\x07",
    "a\rb",
    "\x08\x08",
    "\x00",
    "\ud800",
    "\u202etxt.exe",
    "\u2066x\u2069",
    "\ufeff",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_control_character_is_left(text: str) -> None:
    assert all(character.isprintable() for character in printable(text))
    assert printable(printable(text)) == printable(text)


def test_what_people_write_stays() -> None:
    text = "Größe 5 µm · 95 %\n\tκ = 3, 机器人, é, 🤖"
    assert printable(text) == text


def test_errors_of_the_command_line_are_printable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.yaml").write_text('choices: {task: reach}\ntask: {"a\\e[2J": "${b}"}\n')
    assert exit_code("eval", f"run={folder}") == 2
    output = capsys.readouterr().err
    assert "a\ufffd[2J" in output and "\x1b" not in output

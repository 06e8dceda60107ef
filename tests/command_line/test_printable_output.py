"""Foreign text in the output of commands: its control characters are replaced."""

import io
import sys

import pytest

from robo_rl.cli import main
from robo_rl.command_line.output import lenient_output, printable_output
from robo_rl.core import printable
from robo_rl.telemetry.console import Console

HOSTILE = "arm\x1b]0;pwned\x07\x1b[2J\x9b1m\r\x08"
SHOWN = "arm\ufffd]0;pwned\ufffd\ufffd[2J\ufffd1m\ufffd\ufffd"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_is_printed_controls_no_terminal(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, stream, io.StringIO())
    outer = getattr(sys, stream)
    with printable_output(), lenient_output():
        print(HOSTILE, file=getattr(sys, stream))
        getattr(sys, stream).writelines([HOSTILE, "\n"])
    assert outer.getvalue() == f"{SHOWN}\n{SHOWN}\n"
    assert getattr(sys, stream) is outer


def test_colours_of_our_own_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    outer = sys.stdout
    with printable_output(), lenient_output():
        console = Console(force_terminal=True, color_system="standard", highlight=False, width=80)
        console.print(f"[red]{HOSTILE}[/red]")
    begin, text, end = "\x1b[31m", outer.getvalue(), "\x1b[0m\n"
    assert text.startswith(begin) and text.endswith(end)
    assert printable(text[len(begin) : -len(end)]) == text[len(begin) : -len(end)]


def test_a_command_prints_through_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robo_rl.cli._usage", lambda: HOSTILE)
    with pytest.raises(SystemExit):
        main(["--help"])
    assert capsys.readouterr().out == f"{SHOWN}\n"

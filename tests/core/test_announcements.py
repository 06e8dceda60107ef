"""Messages of drivers: whoever listens receives them, whatever has become of the terminal."""

import io
import sys

import pytest

from robo_rl.core import announce, listening


class ClosedTerminal(io.StringIO):
    """A stream whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize("terminal", [ClosedTerminal(), None])
def test_a_closed_terminal_ends_no_thread_of_a_driver(
    terminal: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if terminal is None:
        terminal = io.StringIO()
        terminal.close()
    monkeypatch.setattr(sys, "stdout", terminal)
    messages: list[str] = []
    with listening(messages.append):
        announce("the servos are switched off to cool")
    announce("nobody listens")
    assert messages == ["the servos are switched off to cool"]

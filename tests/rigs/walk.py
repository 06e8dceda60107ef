"""Walks of newcomers: terminals in which they type commands, and the figures of a walk."""

import json
import os
import shlex
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from .browser import PATIENCE_SECONDS
from .command_line import Forked


class Terminal:
    """A command that runs, and all that it has printed so far.

    Args:
        words: the command and its options, without ``robo-rl``.
        environment: variables in addition to those of the tests.
        folder: working folder, by default that of the tests.
    """

    def __init__(self, *words: str, environment: Mapping[str, str] | None = None, folder: Path | None = None) -> None:
        self.process = Forked(*words, environment=environment, folder=folder)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def wait(self) -> int:
        """Wait until the command and its output have ended; return its exit code."""
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return code

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()


class Newcomer:
    """A person who types commands in terminals, each in the same folder outside the repository.

    Args:
        folder: an empty folder.
        environment: variables in addition to those of the tests.

    Attributes:
        commands: the commands, without the options that make them short enough for a test.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.commands: list[str] = []
        self._environment = environment
        self._began = time.monotonic()
        self._terminals: list[Terminal] = []

    def type(self, words: Sequence[str], *options: str) -> Terminal:
        """Start a command, which begins with ``robo-rl``, with further options."""
        assert words[0] == "robo-rl"
        self.commands.append(shlex.join(words))
        self._terminals.append(Terminal(*words[1:], *options, environment=self._environment, folder=self.folder))
        return self._terminals[-1]

    def report(self, name: str, lines: int, capsys: pytest.CaptureFixture[str]) -> None:
        """Report the figures of the walk, in which the person wrote this number of lines."""
        report_walk(name, len(self.commands), lines, time.monotonic() - self._began, capsys)

    def leave(self) -> None:
        """End what still runs."""
        for terminal in self._terminals:
            terminal.end()


def report_walk(name: str, commands: int, lines: int, seconds: float, capsys: pytest.CaptureFixture[str]) -> None:
    """Print the figures of a walk; also write them to the folder of the screenshots, if there is one."""
    with capsys.disabled():
        print(f"\n{name}: {commands} commands, {lines} lines, {seconds:.0f} s")
    if (folder := os.environ.get("ROBO_RL_SCREENSHOTS")) is not None:
        figures = {"commands": commands, "lines": lines, "seconds": round(seconds)}
        Path(folder, f"walk_{name.replace(' ', '_')}.json").write_text(json.dumps(figures) + "\n")

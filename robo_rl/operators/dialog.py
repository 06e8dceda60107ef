"""Dialog with the operator of a bring-up: what is displayed, and what is asked, in a terminal or on a page."""

import sys
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..telemetry import Console
from .checks import Check

Pictures = Mapping[str, NDArray[np.uint8]]
"""RGB pictures (height, width, 3) by name."""
START = "The robot will move. Keep its emergency stop within reach"
DIRECTIONS = "Which axes moved differently from what was announced"


class Dialog(Protocol):
    """Display of a bring-up, and its questions to the operator."""

    def announce(self, text: str) -> None:
        """Display what the robot is about to do."""
        ...

    def add(self, check: Check) -> None:
        """Display the result of a check."""
        ...

    def show(self, pictures: Pictures) -> None:
        """Display new pictures, at once and without waiting."""
        ...

    def confirm_start(self) -> bool:
        """Ask whether the robot may move; return false if nobody can answer."""
        ...

    def differing_axes(self, axes: Sequence[str]) -> str | None:
        """Ask which of ``axes`` moved differently from what was announced.

        Returns:
            Their names, or an empty text for none of them; None if nobody can answer.
        """
        ...

    def end(self, text: str, waits: bool) -> None:
        """Display the result; with ``waits``, until the operator has read it where it would disappear."""
        ...

    def close(self) -> None:
        """End the display."""
        ...


class TerminalDialog:
    """A :class:`Dialog` in the terminal.

    Args:
        console: the terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    def announce(self, text: str) -> None:
        self._console.print(f"      {text}", soft_wrap=True)

    def add(self, check: Check) -> None:
        self._console.print(f"{check.outcome:4}  {check.name}: {check.text}", soft_wrap=True)

    def show(self, pictures: Pictures) -> None:
        """Display nothing: pictures are in the report."""

    def confirm_start(self) -> bool:
        return self._input(f"{START}, and press Enter: ") is not None

    def differing_axes(self, axes: Sequence[str]) -> str | None:
        return self._input(f"{DIRECTIONS} (Enter: none)? ")

    def end(self, text: str, waits: bool) -> None:
        self._console.print(text, soft_wrap=True)

    def close(self) -> None:
        """Do nothing."""

    def _input(self, question: str) -> str | None:
        """Return the operator's answer, or None if there is no terminal."""
        if sys.stdin is None or sys.stdin.closed:
            return None
        try:
            return self._console.input(question)
        except EOFError:
            return None

"""The console that commands print to."""

import os
import sys
from collections.abc import Iterable

from rich import console
from rich.segment import Segment

from robo_rl.core import printable


class Console(console.Console):
    """A console that prints no escape sequences except its own, so that text from any source is safe in a terminal.

    If its output is closed, it discards everything from then on, so that a command is not interrupted halfway.
    """

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        printable_segments = (
            segment if segment.control else Segment(printable(segment.text), segment.style) for segment in buffer
        )
        return super()._render_buffer(printable_segments)

    def on_broken_pipe(self) -> None:
        """Print nothing from now on, and make the flush at exit succeed."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

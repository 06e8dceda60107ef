"""What commands print through."""

import os
import sys
from collections.abc import Iterable

from rich import console
from rich.segment import Segment

from robo_rl.core import printable


class Console(console.Console):
    """Prints what terminals do not obey, whoever it is from, and no escape sequences but its own.

    When nobody reads the output any more it prints on into nothing: what a command does is not to end half done.
    """

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        shown = (each if each.control else Segment(printable(each.text), each.style) for each in buffer)
        return super()._render_buffer(shown)

    def on_broken_pipe(self) -> None:
        """Print nothing from here on; what is flushed at exit must not fail again either."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

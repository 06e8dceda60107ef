"""What commands print through."""

import os
import sys

from rich import console


class Console(console.Console):
    """Prints on into nothing when nobody reads the output any more: what a command does is not to end half done."""

    def on_broken_pipe(self) -> None:
        """Print nothing from here on; what is flushed at exit must not fail again either."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

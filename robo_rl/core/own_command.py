"""Command line by which a process starts ``robo-rl`` in another one."""

import sys
from pathlib import Path


def own_command() -> list[str]:
    """Return the beginning of a command line that starts ``robo-rl`` with modules from where this process has them.

    ``python -m`` alone searches the working folder first. A folder of sources there would be imported in the place of
    the installed package of the same name.
    """
    in_working_folder = bool({"", str(Path.cwd())} & set(sys.path))
    return [sys.executable, *([] if in_working_folder else ["-P"]), "-m", "robo_rl.cli"]

"""The command line by which a process starts ``robo-rl`` in another one."""

import sys
from pathlib import Path


def own_command() -> list[str]:
    """Return the start of a command line that runs ``robo-rl`` with the modules that this process imports.

    ``python -m`` alone searches the working folder first, and would import a folder of sources there instead of
    the installed package of the same name.
    """
    in_working_folder = bool({"", str(Path.cwd())} & set(sys.path))
    return [sys.executable, *([] if in_working_folder else ["-P"]), "-m", "robo_rl.cli"]

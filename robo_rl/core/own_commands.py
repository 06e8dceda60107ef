"""The command line by which a process starts a module of this program, such as ``robo-rl``, in another one."""

import sys
from pathlib import Path


def own_command(module: str = "robo_rl.cli") -> list[str]:
    """Return the start of a command line that runs ``module``, by default ``robo-rl``, as this process imports it.

    ``python -m`` alone searches the working folder first, and would import a folder of sources there instead of
    the installed package of the same name.
    """
    in_working_folder = bool({"", str(Path.cwd())} & set(sys.path))
    return [sys.executable, *([] if in_working_folder else ["-P"]), "-m", module]

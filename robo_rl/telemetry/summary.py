"""The file summary.json: the results of a run and the versions of the software."""

import importlib.metadata
import json
import subprocess
from pathlib import Path
from typing import Any

from robo_rl.version import __version__

from ..core import DataError, write_durably

SUMMARY = "summary.json"
PACKAGES = ("torch", "numpy", "mujoco", "gymnasium")


def versions() -> dict[str, str]:
    """Return the versions of robo-rl and of the packages that affect its results."""
    return {"robo-rl": __version__} | {name: importlib.metadata.version(name) for name in PACKAGES}


def git_commit() -> str | None:
    """Return the commit of the checkout that robo-rl runs from, or None outside a checkout."""
    folder = Path(__file__).parent
    try:
        process = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--match="],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip()


def write_summary(folder: Path, **values: Any) -> None:
    """Write ``summary.json`` into ``folder`` atomically.

    Raises:
        DataError: if it cannot be written.
    """
    text = json.dumps(values | {"versions": versions(), "git_commit": git_commit()}, indent=2) + "\n"
    file = folder / SUMMARY
    try:
        write_durably(file, text.encode())
    except OSError as error:
        raise DataError(f"{file} cannot be written: {error.strerror}; free space on this disk") from error

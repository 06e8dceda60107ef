"""summary.json: what a run came to, and with which versions."""

import importlib.metadata
import json
import subprocess
from pathlib import Path
from typing import Any

from robo_rl import __version__

from ..core import DataError, write_durably

SUMMARY = "summary.json"
PACKAGES = ("torch", "numpy", "mujoco", "gymnasium")


def versions() -> dict[str, str]:
    """Return the versions of robo-rl and of what decides its results."""
    return {"robo-rl": __version__} | {name: importlib.metadata.version(name) for name in PACKAGES}


def git_commit() -> str | None:
    """Return the commit of the checkout that robo-rl runs from; None where it is no checkout."""
    folder = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--match="],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def write_summary(folder: Path, **values: Any) -> None:
    """Write ``summary.json`` into ``folder``, whole or not at all.

    Raises:
        DataError: if the disk does not take it.
    """
    text = json.dumps(values | {"versions": versions(), "git_commit": git_commit()}, indent=2) + "\n"
    file = folder / SUMMARY
    try:
        write_durably(file, text.encode())
    except OSError as error:
        raise DataError(f"{file} cannot be written: {error.strerror}; free space on this disk") from error

"""A MkDocs hook that lays the tree of links in which sim/ and rewards/ are parts of robo_rl, for the Python API."""

import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def on_startup(**_: Any) -> None:
    """Lay the tree unless it is there: mypy may be reading it."""
    if not (ROOT / ".lint" / "robo_rl" / "sim").exists():
        subprocess.run(["bash", str(ROOT / "tests" / "lint_tree.sh")], check=True)

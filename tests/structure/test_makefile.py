"""make setup where something is missing, with a Python and a pip that are played."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return path


def setup(folder: Path, python: Path) -> subprocess.CompletedProcess[str]:
    command = ["make", "setup", f"PYTHON={python}", "SYSTEM_PACKAGES=:"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_setup_goes_on_once_a_virtual_environment_can_be_made(tmp_path: Path) -> None:
    """Debian without python3-venv fails, and leaves an environment without pip behind."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    bare = script(
        tmp_path / "bare", 'test "$1" = -c || { mkdir -p .venv/bin; ln -s /bin/true .venv/bin/python; exit 1; }'
    )
    failed = setup(tmp_path, bare)
    assert failed.returncode != 0
    assert "No virtual environment could be made. On Debian: apt-get install python3-venv" in failed.stdout
    whole = script(tmp_path / "whole", 'test "$1" = -c || ln -s /bin/true .venv/bin/pip')
    done = setup(tmp_path, whole)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / ".venv/.ready").exists()


def test_an_older_python_is_named(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    old = script(tmp_path / "old", 'test "$1" = --version && echo Python 3.9.2')
    failed = setup(tmp_path, old)
    assert failed.returncode != 0
    assert f"Python 3.11 or newer is needed; {old} is Python 3.9.2. Try: make PYTHON=python3.12" in failed.stdout

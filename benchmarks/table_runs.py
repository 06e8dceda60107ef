"""Options, runs and result files of the programs that measure and make tables."""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "measured" / "results"
ENDED = ("completed", "reached", "diverged")
"""Statuses of runs that are not resumed."""


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the description, line by line."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def robo_rl(*words: str, check: bool = True) -> int:
    """Run a command of robo-rl in a process of its own; return its exit code."""
    return subprocess.run([sys.executable, "-m", "robo_rl.cli", *words], check=check).returncode


def status(folder: Path) -> str | None:
    """Return how the run in ``folder`` ended, or None."""
    file = folder / "summary.json"
    return json.loads(file.read_text())["status"] if file.exists() else None


def metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's metrics."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def evaluations(lines: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """Return step, time, success and further ``keys`` of the evaluations in a run's metrics."""
    keys = ("step", "wall_seconds", "success_rate", *keys, "episodes")
    return [{key: line[key] for key in keys} for line in lines if line["kind"] == "evaluation"]


def with_earlier(file: Path, runs: list[dict], keys: tuple[str, ...]) -> list[dict]:
    """Return ``runs`` and those in ``file`` that differ from all of them in ``keys``: their folders may be gone."""
    earlier = json.loads(file.read_text()) if file.exists() else []
    known = {tuple(run[key] for key in keys) for run in runs}
    return runs + [run for run in earlier if tuple(run[key] for key in keys) not in known]


def write_json(file: Path | None, values: object) -> None:
    """Write the results to ``file``, whose folder is made; do nothing without a file."""
    if file is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(values, indent=1) + "\n")

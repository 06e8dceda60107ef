"""Options, runs and result files of the programs that measure and make tables."""

import json
import os
import platform
import subprocess
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omegaconf import DictConfig


ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "measured" / "results"
ENDED = ("completed", "reached", "diverged")
"""Statuses of runs that are not resumed."""


def make_parser(description: str | None, output: str | None = None, default: Path | None = None) -> ArgumentParser:
    """Return a parser whose help is the description, line by line.

    Args:
        description: docstring of the program.
        output: flag of the file for the figures, if the program has one, with its ``default``.
    """
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    if output is not None:
        parser.add_argument(output, type=Path, default=default, help="file for the figures (JSON)")
    return parser


def table_parser(description: str | None, name: str) -> ArgumentParser:
    """Return a parser of a program that trains runs for the table ``name``: their folder, options and results."""
    parser = make_parser(description)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / name, help="folder of the runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--overrides", nargs="*", default=[], help="for every run, for example runtime.threads=1")
    return parser


def machine() -> dict[str, Any]:
    """Return facts about this machine that times depend on."""
    return {"cores": os.cpu_count(), "machine": platform.machine(), "load": os.getloadavg()[0]}


def processor_seconds(call: Callable[[], object]) -> float:
    """Return the processor time of a call, of all threads [s]."""
    began = time.process_time()
    call()
    return time.process_time() - began


def composed(command: str, overrides: Sequence[str], **options: Any) -> "DictConfig":
    """Return the configuration of a command with overrides; ``options`` are those of Hydra's ``compose``."""
    from hydra import compose, initialize_config_module  # slow to import, as is the next one

    from robo_rl.app import register_all_configs

    register_all_configs()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        return compose(command, overrides=list(overrides), **options)


def robo_rl(*words: str, check: bool = True) -> int:
    """Run a command of robo-rl in a process of its own; return its exit code."""
    return subprocess.run([sys.executable, "-m", "robo_rl.cli", *words], check=check).returncode


def train_or_resume(folder: Path, options: Sequence[str], first: Sequence[str], last: Sequence[str] = ()) -> int:
    """Train a run in ``folder``, or go on with one that has a checkpoint; return the exit code.

    Args:
        folder: folder of the run.
        options: options in either case.
        first: further options of a run that begins, which may replace those before them.
        last: options in either case that may replace all others.
    """
    if (folder / "checkpoints").exists():
        return robo_rl("train", *options, f"resume={folder}", *last, check=False)
    return robo_rl("train", *options, *first, f"run.dir={folder}", "run.overwrite=true", *last, check=False)


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

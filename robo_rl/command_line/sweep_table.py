"""The table that ends a sweep: what each run varied, how it ended, what it reached, and its folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..core import RoboRLError


class SweptRun(NamedTuple):
    """A run of a sweep.

    Attributes:
        folder: its run folder.
        overrides: all overrides that it was started with.
        failure: why it failed; empty if it did not, or if its summary says how it ended.
    """

    folder: Path
    overrides: Sequence[str]
    failure: str = ""


def print_sweep(runs: Sequence[SweptRun]) -> None:
    """Print a table with a row for each run. Overrides that all runs have are left out."""
    from rich.table import Table  # only sweeps pay for these imports

    from ..telemetry import Console

    table = Table(title=f"{len(runs)} runs", expand=True)
    for column in ("values", "ended", "steps", "minutes", "success", "return", "folder"):
        table.add_column(column, overflow="fold", justify="right" if column in ("steps", "minutes") else "left")
    same = set(runs[0].overrides).intersection(*(run.overrides for run in runs[1:])) if len(runs) > 1 else set()
    for run in runs:
        table.add_row(*_row(run, [word for word in run.overrides if word not in same]))
    Console().print(table)


def _row(run: SweptRun, values: Sequence[str]) -> list[str]:
    summary = _summary(run.folder)
    success, mean, seconds = summary.get("success_rate"), summary.get("return_mean"), summary.get("wall_seconds")
    return [
        " ".join(word for word in values if not word.startswith("run.dir=")),
        run.failure or str(summary.get("status", "")),
        f"{summary.get('env_steps', 0):,}",
        "" if seconds is None else f"{seconds / 60:.1f}",
        "" if success is None else f"{100 * success['value']:.0f} %",
        "" if mean is None else f"{mean:.2f}",
        str(run.folder),
    ]


def _summary(folder: Path) -> Mapping[str, Any]:
    """Return the summary of a run; empty if it was never written, or cannot be read."""
    from ..evaluation.runs import is_run, load_run

    try:
        return (load_run(folder).summary if is_run(folder) else None) or {}
    except RoboRLError:
        return {}

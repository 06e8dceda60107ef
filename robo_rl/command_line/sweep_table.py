"""Progress of a sweep, a line as each run begins, and the table at its end."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser

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


def swept_overrides(words: Sequence[str]) -> list[list[str]]:
    """Return the overrides of each run of the sweep over ``words``; none if a sweeper other than Hydra's own decides.

    Call this within a run of the sweep.
    """
    sweeper = HydraConfig.get().sweeper
    if not str(sweeper.get("_target_")).endswith(f".{BasicSweeper.__name__}"):
        return []
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    params = [f"{key}={value}" for key, value in (sweeper.get("params") or {}).items()]
    overrides = parser.parse_overrides([*params, *(word for word in words if not word.startswith("-"))])
    return [run for batch in BasicSweeper.split_arguments(overrides, None) for run in batch]


def progress_line(number: int, runs: Sequence[Sequence[str]]) -> str:
    """Return the line about the run ``number``, from 0, as it begins: ``Run 2 of 6: seed=1``.

    Args:
        number: number of the run.
        runs: overrides of each run; empty if they are unknown.
    """
    if number >= len(runs):
        return f"Run {number + 1}"
    return f"Run {number + 1} of {len(runs)}: {' '.join(varied(runs)[number])}".removesuffix(": ")


def varied(runs: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the overrides of each run without those that all have, and without their folders."""
    same = set(runs[0]).intersection(*runs[1:]) if len(runs) > 1 else set()
    return [[word for word in run if word not in same and not word.startswith("run.dir=")] for run in runs]


def print_sweep(runs: Sequence[SweptRun]) -> None:
    """Print a table with a row for each run. Overrides that all runs have are left out."""
    from rich.table import Table  # only sweeps pay for these imports

    from ..telemetry import Console

    table = Table(title=f"{len(runs)} runs", expand=True)
    for column in ("values", "ended", "steps", "minutes", "success", "return", "folder"):
        table.add_column(column, overflow="fold", justify="right" if column in ("steps", "minutes") else "left")
    for run, values in zip(runs, varied([run.overrides for run in runs]), strict=True):
        table.add_row(*_row(run, values))
    Console().print(table)


def _row(run: SweptRun, values: Sequence[str]) -> list[str]:
    summary = _summary(run.folder)
    success, mean, seconds = summary.get("success_rate"), summary.get("return_mean"), summary.get("wall_seconds")
    return [
        " ".join(values),
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

"""Results of a run for the terminal and for summary.json: rates, times, curves and paths of files."""

import dataclasses
import functools
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core import counted, override, scratch_folder
from ..core.search_path import config_flags
from ..evaluation import CycleTime, EvaluationResult, cycle_time_lines
from ..evaluation.runs import load_run


def evaluation_facts(result: EvaluationResult | None) -> dict[str, Any]:
    """Return the entries of summary.json about the final evaluation; they are None if there was none."""
    if result is None:
        return dict.fromkeys(("success_rate", "return_mean", "cycle_time", "lap_seconds"))
    rate, laps = result.success_rate, result.lap_seconds
    success = times = None
    if rate is not None:
        success = {"value": rate.value, "low": rate.low, "high": rate.high, "episodes": len(result.episodes)}
    if laps:
        times = {"median": float(np.median(laps)), "fastest": min(laps), "slowest": max(laps), "laps": len(laps)}
    cycle_time = cycle_time_facts(result.cycle_time)
    facts = {"success_rate": success, "return_mean": result.return_mean, "cycle_time": cycle_time, "lap_seconds": times}
    constraints = {outcome.limit.name: outcome.to_json() for outcome in result.constraints}
    return facts | ({"constraints": constraints} if constraints else {})


def cycle_time_facts(cycle_time: CycleTime | None) -> dict[str, float] | None:
    """Return a cycle time as an entry of summary.json."""
    return None if cycle_time is None else dataclasses.asdict(cycle_time)


def evaluation_lines(result: EvaluationResult, demonstrated: CycleTime | None) -> Iterator[str]:
    """Describe the final evaluation, line by line.

    Args:
        result: result of the evaluation.
        demonstrated: cycle time of the demonstrations; None if unknown.
    """
    rate, episodes = result.success_rate, counted(len(result.episodes), "evaluation episode")
    if rate is not None:
        interval = f"95 % interval {100 * rate.low:.0f} to {100 * rate.high:.0f} %"
        yield f"Success {100 * rate.value:.0f} % of {episodes} ({interval})"
    else:
        yield f"Mean return {result.return_mean:.1f} over {episodes}"
    if result.stages:
        yield result.stages
    yield from result.limit_lines
    if result.stops:
        yield result.stops
    if (cycle_time := result.cycle_time) is not None:
        yield from cycle_time_lines(cycle_time, demonstrated)
    if result.lap_seconds:
        yield f"Lap time {result.lap_seconds_median:.2f} s (median of {len(result.lap_seconds)})"


def first_evaluation_text(result: EvaluationResult) -> str:
    """Describe the evaluation before the first step in a few words."""
    rate, episodes = result.success_rate, counted(len(result.episodes), "evaluation episode")
    measure = f"mean return {result.return_mean:.1f}" if rate is None else f"success {100 * rate.value:.0f} %"
    return f"{measure} over {episodes}"


def file_lines(folder: Path, policy: Path | None, video: Path | None, allow: Sequence[str] = ()) -> Iterator[str]:
    """Draw the learning curve of the run in ``folder``, write its report, and list the paths of all results.

    Args:
        folder: the run folder.
        policy: the best checkpoint.
        video: video of the evaluation.
        allow: packages that another command has to allow before it can evaluate the run.
    """
    # Importing matplotlib takes a tenth of the start-up time.
    from ..evaluation.plots import plot_runs
    from ..evaluation.report import write_report
    from ..monitoring.demonstration_thumbnails import demonstration_thumbnails

    yield f"Policy    {policy}"
    if video is not None:
        yield f"Video     {video}"
    run = functools.cache(functools.partial(load_run, folder))
    with scratch_folder() as scratch:
        curve = Path(scratch, "curve.svg")
        drawn: dict[str, Callable[[], Path]] = {
            "Curve": lambda: plot_runs([run()], folder / "curve.png", copy=curve),
            "Report": lambda: write_report(
                [run()], folder / "report.html", False, curve if curve.exists() else None, demonstration_thumbnails
            ),
        }
        for name, draw in drawn.items():
            try:
                yield f"{name:<10}{draw()}"
            except Exception as error:  # the run is complete, and its results are written
                yield f"No {name.lower()}: {type(error).__name__}: {error}"
    allowed = " " + shlex.quote(f"allow=[{','.join(allow)}]") if allow else ""
    yield f"Run it    robo-rl eval {override('run', folder)}{allowed}{config_flags()}"

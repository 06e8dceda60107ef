"""``robo-rl top``: what runs are doing, in the terminal, while they go on."""

import itertools
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ..core import ENTRIES, MAX_SECONDS, DataError, require
from ..evaluation.runs import Run, find_runs, load_run
from ..telemetry import LiveStatus, LiveWatch

RECENT_EPISODES = 20
RECENT_SECONDS = 60.0
LEVELS = "▁▂▃▄▅▆▇█"
SHOWN_CHARACTERS = 500
"""Longest text of a run's files that is shown."""
CURVE = 40
"""Evaluations that a curve shows."""
LEARNING = ("q_mean", "critic_loss", "entropy", "temperature")
CYCLE = {
    "success_seconds_median": "s to success",
    "successes_per_hour": "successes/h",
    "demonstrations_seconds_median": "s in demonstrations",
}
WIRE = ("actors", "stored", "refused", "spooled", "ratio", "staleness_steps", "staleness_seconds", "refused_requests")


@dataclass(frozen=True)
class TopConfig:
    """Options of configs/top.yaml, where the defaults and their meaning stand."""

    runs: list[str]
    newest: int
    interval: float
    once: bool

    def __post_init__(self) -> None:
        require(len(self.runs) > 0, "runs", "one or more run folders, for example runs=[runs/a,runs/b]", self.runs)
        require(self.newest >= 1, "newest", "1 or more", self.newest)
        require(0 < self.interval <= MAX_SECONDS, "interval", f"in (0, {MAX_SECONDS:g}]", self.interval)


def look(settings: TopConfig) -> RenderableType:
    """Return what the files say now, the newest run first.

    Raises:
        DataError: if there is no run.
    """
    dated = [(newest_change(path), path) for path in find_runs(settings.runs)]
    panels = []
    for changed, path in sorted(dated, reverse=True)[: settings.newest]:
        try:
            panels.append(show(path, max(time.time() - changed, 0.0)))
        except Exception as error:  # its files were removed meanwhile, or are somebody's mischief
            known = isinstance(error, DataError | OSError)
            text = str(error) if known else f"cannot be shown: {type(error).__name__} in its files"
            panels.append(Panel(Text(clip(text)), title=Text(clip(path.name)), title_align="left"))
    return Group(*panels)


def newest_change(run: Path) -> float:
    """Return when a file of a run last changed [s of the wall clock]; used for display alone."""
    with os.scandir(run) as entries:
        files = [entry for entry in itertools.islice(entries, ENTRIES) if entry.is_file()]
        return max((entry.stat(follow_symlinks=False).st_mtime for entry in files), default=0.0)


def show(path: Path, quiet_seconds: float) -> Panel:
    """Return a panel about the run in ``path``, whose files have not changed for ``quiet_seconds`` [s].

    Raises:
        DataError: if the folder holds nothing of a run.
    """
    watch = LiveWatch(path)
    going_on = watch.is_going_on()
    run, status = load_run(path, going_on), watch.status() if going_on else None
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, text in facts(run, going_on):
        table.add_row(name, Text(text))
    for robot in () if status is None else status.robots:
        told = "  ".join(f"{name} {value}" for name, value in robot.facts.items())
        table.add_row(Text(clip(robot.name)), Text(clip(f"{'present' if robot.connected else 'away'}  {told}")))
    quiet = f", nothing new for {duration(quiet_seconds)}" if going_on and quiet_seconds > RECENT_SECONDS else ""
    doing = describe_live(status) if going_on else run.status
    title = clip(f"{run.task}  {run.agent}  seed {run.seed}  [{doing}{quiet}]")
    return Panel(table, title=Text(title), title_align="left", subtitle=Text(str(run.path)), subtitle_align="right")


def describe_live(status: LiveStatus | None) -> str:
    """Return what a run that goes on does now, in a few words."""
    if status is None or not status.state:
        return "going on"
    return status.state + (", will pause" if status.paused and status.state != "paused" else "")


def clip(text: str) -> str:
    """Return a text as one line that a screen can show: not too long, and without characters that control it."""
    shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
    return "".join(character if character.isprintable() else "\ufffd" for character in shown)


def facts(run: Run, going_on: bool) -> Iterable[tuple[str, str]]:
    """Yield what there is to say about ``run``, by name; ``going_on``: a process is busy with it."""
    for name, text in _facts(run, going_on):
        yield name, clip(text)


def _facts(run: Run, going_on: bool) -> Iterable[tuple[str, str]]:
    of = f" of {run.wanted_steps:,}" if run.wanted_steps else ""
    rate = step_rate(run.metrics)
    speed = f"  {rate:.1f} steps/s" if going_on and rate is not None else ""
    yield "steps", f"{run.env_steps:,}{of}{speed}  in {duration(run.wall_seconds)}"
    episodes = [line for line in run.metrics if line.get("kind") == "episode"]
    if episodes:
        yield "episodes", episode_means(episodes)
    rated = run.evaluations.curve("success_rate")[1]
    values = rated or run.evaluations.curve("return_mean")[1]
    if values:
        last = f"{values[-1]:.0%}" if rated else f"{values[-1]:.4g}"
        yield (
            "evaluations",
            f"{sparkline(values, top=1.0 if rated else None)}  {last} at {run.evaluations.lines[-1]['step']:,}",
        )
    if timed := newest(run.metrics, "evaluation", ("success_seconds_median",)):
        yield "cycle", cycle_text(timed)
    for name, keys, kind in (("learning", LEARNING, "train"), ("wire", WIRE, "runtime")):
        line = newest(run.metrics, kind, keys)
        if line:
            yield name, "  ".join(f"{key} {line[key]:.4g}" for key in keys if line.get(key) is not None)
    if safety := newest(episodes, "episode", ("safety/changed_steps",)):
        counts = [
            (key.removeprefix("safety/"), value)
            for key, value in safety.items()
            if key.startswith("safety/") and value is not None
        ]
        yield "safety", "  ".join(f"{name} {value:g}" for name, value in counts)
    if stopped := [line for line in episodes if line.get("stopped")]:
        reasons = Counter(str(line["stopped"])[:SHOWN_CHARACTERS] for line in stopped).most_common(10)
        listed = "  ".join(f"{reason} {count}" for reason, count in reasons)
        yield "stopped", f"{listed}  (last at step {stopped[-1]['step']:,})"
    wire = newest(run.metrics, "runtime", ("blocked",))
    if going_on and wire is not None and wire["blocked"]:
        yield "blocked", f"no steps are taken in: {wire['blocked']}"
    for problem in run.problems:
        yield "note", problem


def episode_means(episodes: Sequence[Mapping[str, Any]]) -> str:
    """Return how many episodes there were, and means over the last."""
    recent = episodes[-RECENT_EPISODES:]
    returns = [float(line["episode_return"]) for line in recent if line.get("episode_return") is not None]
    known = [bool(line["success"]) for line in recent if line.get("success") is not None]
    success = f"  success {sum(known) / len(known):.0%}" if known else ""
    mean = f"{sum(returns) / len(returns):.3g}" if returns else "unknown"
    return f"{len(episodes):,}  last {len(recent)}: return {mean}{success}"


def cycle_text(evaluation: Mapping[str, Any]) -> str:
    """Return what an evaluation measured of the time to success, beside that of the demonstrations."""
    return "  ".join(f"{evaluation[key]:.3g} {unit}" for key, unit in CYCLE.items() if evaluation.get(key) is not None)


def newest(lines: Iterable[Mapping[str, Any]], kind: str, keys: Iterable[str]) -> Mapping[str, Any] | None:
    """Return the last of ``lines`` that is of ``kind`` and has one of ``keys``."""
    found = [line for line in lines if line.get("kind") == kind and any(key in line for key in keys)]
    return found[-1] if found else None


def step_rate(lines: Iterable[Mapping[str, Any]]) -> float | None:
    """Return environment steps per second of wall-clock time over the last minute; None where that is not known."""
    points = sorted((float(line["wall_seconds"]), int(line["step"])) for line in lines)
    if not points:
        return None
    recent = [point for point in points if point[0] >= points[-1][0] - RECENT_SECONDS]
    seconds, steps = recent[-1][0] - recent[0][0], recent[-1][1] - recent[0][1]
    return steps / seconds if seconds > 0 else None


def sparkline(values: list[float], top: float | None = None) -> str:
    """Return the last values as a curve of one line; ``top`` is the highest level, the largest value by default."""
    shown = values[-CURVE:]
    low = min(0.0, *shown)
    span = (max(shown) if top is None else top) - low
    levels = [0 if span <= 0 else round((value - low) / span * (len(LEVELS) - 1)) for value in shown]
    return "".join(LEVELS[min(max(level, 0), len(LEVELS) - 1)] for level in levels)


def duration(seconds: float) -> str:
    """Return ``seconds`` as h:mm:ss."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"

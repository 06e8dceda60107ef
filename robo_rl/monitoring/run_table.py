"""Command ``robo-rl top``: the live state of runs, in the terminal."""

import itertools
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ..core import ENTRIES, MAX_SECONDS, ConfigError, DataError, require
from ..evaluation import CycleTimes
from ..evaluation.runs import Run, find_runs, first_policy, load_run
from ..operators.rearming import Hold, find_stops
from ..telemetry import LiveStatus, LiveWatch, intervention_rate

RECENT_EPISODES = 20
RECENT_SECONDS = 60.0
LEVELS = "▁▂▃▄▅▆▇█"
SHOWN_CHARACTERS = 500
"""Largest number of displayed characters of a text from a run's files."""
CURVE = 40
"""Number of evaluations in a curve."""
LEARNING = ("q_mean", "critic_loss", "entropy", "temperature")
CYCLE = {
    "success_seconds_median": "s to success",
    "successes_per_hour": "successes/h",
    "demonstrations_seconds_median": "s in demonstrations",
}
WIRE = ("actors", "stored", "refused", "spooled", "ratio", "staleness_steps", "staleness_seconds", "refused_requests")


@dataclass(frozen=True)
class WatchConfig:
    """Options of configs/web.yaml, which documents them and holds their defaults."""

    runs: list[str]
    newest: int
    interval: float

    def __post_init__(self) -> None:
        require(len(self.runs) > 0, "runs", "one or more run folders, for example runs=[runs/a,runs/b]", self.runs)
        require(self.newest >= 1, "newest", "1 or more", self.newest)
        require(0 < self.interval <= MAX_SECONDS, "interval", f"in (0, {MAX_SECONDS:g}]", self.interval)


@dataclass(frozen=True)
class TopConfig(WatchConfig):
    """Options of configs/top.yaml, which documents them and holds their defaults."""

    once: bool


def look(settings: TopConfig) -> RenderableType:
    """Return panels about the latches that hold robots still, and the current state of the runs, newest first.

    Raises:
        DataError: if there is no run.
    """
    dated = [(newest_change(path), path) for path in find_runs(settings.runs)]
    panels = stopped_robots()
    for changed, path in sorted(dated, reverse=True)[: settings.newest]:
        try:
            panels.append(show(path, max(time.time() - changed, 0.0)))
        except Exception as error:  # the files of the run were removed meanwhile, or are malicious
            is_known = isinstance(error, DataError | OSError)
            text = str(error) if is_known else f"cannot be shown: {type(error).__name__} in its files"
            panels.append(Panel(Text(clip(text)), title=Text(clip(path.name)), title_align="left"))
    return Group(*panels)


def stopped_robots() -> list[Panel]:
    """Return a red panel about each latch that holds this user's robots still, and how to release it."""
    if not (holds := held_robots()):
        return []
    lines = [f"{hold.what}: {hold.description}" for hold in holds]
    text = Text("\n".join([*map(clip, lines), "When all is safe: robo-rl rearm"]))
    return [Panel(text, title="STOPPED", title_align="left", style="bold white on red")]


def held_robots() -> list[Hold]:
    """Return the latches that hold this user's robots still; none if this user has no folder for them."""
    with suppress(ConfigError):
        return find_stops()
    return []


def robot_of(run: Run) -> str | None:
    """Return the name of the robot of a run; None if it trains in simulation."""
    node = run.config.get("robot")
    name = node.get("name") if isinstance(node, Mapping) else None
    return None if name is None else str(name)


def is_held(robot: str | None) -> bool:
    """Return whether a latch of this user holds the robot ``robot`` still; no latch holds a simulation (None)."""
    return robot is not None and any(hold.robot in (None, robot) for hold in held_robots())


def newest_change(run: Path) -> float:
    """Return when a file of a run last changed [s of the wall clock]; it is only used for display."""
    newest = 0.0
    with suppress(OSError), os.scandir(run) as entries:  # because the run may be removed meanwhile
        for entry in itertools.islice(entries, ENTRIES):
            with suppress(OSError):  # because a draft may replace its file meanwhile
                if entry.is_file():
                    newest = max(newest, entry.stat(follow_symlinks=False).st_mtime)
    return newest


def show(path: Path, quiet_seconds: float) -> Panel:
    """Return a panel about the run in ``path``, whose files have not changed for ``quiet_seconds`` [s].

    Raises:
        DataError: if the folder holds no files of a run.
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
        robot_facts = "  ".join(f"{name} {value}" for name, value in robot.facts.items())
        table.add_row(Text(clip(robot.name)), Text(clip(f"{'present' if robot.connected else 'away'}  {robot_facts}")))
    silence = f", nothing new for {duration(quiet_seconds)}" if going_on and quiet_seconds > RECENT_SECONDS else ""
    activity = ("stopped" if is_held(robot_of(run)) else describe_live(status)) if going_on else run.status
    title = clip(f"{run.task}  {run.agent}  seed {run.seed}  [{activity}{silence}]")
    return Panel(table, title=Text(title), title_align="left", subtitle=Text(str(run.path)), subtitle_align="right")


def results(run: Run) -> list[tuple[str, str]]:
    """Return names and texts of the results of an ended run; empty if it was never evaluated."""
    rate, mean = run.success_rate, run.evaluations.return_mean
    demonstrated, first = run.evaluations.demonstrations_success_rate, run.evaluations.before_first_step("success_rate")
    found: list[tuple[str, str]] = []
    if rate is not None:
        interval = f"95 % interval {100 * rate.low:.0f} to {100 * rate.high:.0f} %"
        found.append(("success", f"{100 * rate.value:.0f} % of {rate.episodes} episodes ({interval})"))
    elif mean is not None:
        found.append(("mean return", f"{mean:.2f}"))
    if first is not None:
        found.append((first_policy(run) or "before the first step", f"{100 * first:.0f} %"))
    if demonstrated is not None:
        found.append(("demonstrations", f"{100 * demonstrated:.0f} % successful"))
    policy, demonstrations = CycleTimes.of_summary(run.summary)
    if policy is not None:
        comparison = ""
        if demonstrations is not None and demonstrations.median > 0:
            relative = policy.median / demonstrations.median
            comparison = f", {relative:.2f} times the demonstrations' {demonstrations.median:.3g} s"
        found.append(("time to success", f"{policy.median:.3g} s{comparison}"))
    if found:
        found.append(("environment steps", f"{run.env_steps:,}"))
        if run.robot_minutes is not None:
            found.append(("robot time", f"{run.robot_minutes:.1f} minutes"))
    return found


def describe_live(status: LiveStatus | None) -> str:
    """Return the activity of a running run in a few words."""
    if status is None or not status.state:
        return "active"
    return status.state + (", will pause" if status.paused and not status.state.startswith("paused") else "")


def clip(text: str) -> str:
    """Return a text as one printable line of limited length, without control characters."""
    shortened = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
    return "".join(character if character.isprintable() else "\ufffd" for character in shortened)


def facts(run: Run, going_on: bool) -> Iterable[tuple[str, str]]:
    """Yield facts about ``run`` as name and text; ``going_on`` is whether a process is using the run."""
    for name, text in _facts(run, going_on):
        yield name, clip(text)


def _facts(run: Run, going_on: bool) -> Iterable[tuple[str, str]]:
    total = f" of {run.wanted_steps:,}" if run.wanted_steps else ""
    rate = step_rate(run.metrics)
    speed = f"  {rate:.1f} steps/s" if going_on and rate is not None else ""
    yield "steps", f"{run.env_steps:,}{total}{speed}  in {duration(run.wall_seconds)}"
    episodes = [line for line in run.metrics if line.get("kind") == "episode"]
    if episodes:
        yield "episodes", episode_means(episodes)
    if (intervened := intervention_rate(episodes)) is not None:
        yield "intervened", f"{intervened}. {intervened.advice()}"
    success_rates = run.evaluations.curve("success_rate")[1]
    values = success_rates or run.evaluations.curve("return_mean")[1]
    if values:
        last = f"{values[-1]:.0%}" if success_rates else f"{values[-1]:.4g}"
        yield (
            "evaluations",
            f"{sparkline(values, top=1.0 if success_rates else None)}  {last} at {run.evaluations.lines[-1]['step']:,}",
        )
    if line := newest(run.metrics, "evaluation", ("success_seconds_median",)):
        yield "cycle", "  ".join(f"{line[key]:.3g} {unit}" for key, unit in CYCLE.items() if line.get(key) is not None)
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
        reason_counts = "  ".join(f"{reason} {count}" for reason, count in reasons)
        yield "stopped", f"{reason_counts}  (last at step {stopped[-1]['step']:,})"
    wire = newest(run.metrics, "runtime", ("blocked",))
    if going_on and wire is not None and wire["blocked"]:
        yield "blocked", f"no steps are accepted: {wire['blocked']}"
    for problem in run.problems:
        yield "note", problem


def episode_means(episodes: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of episodes and the means over the last ones."""
    recent = episodes[-RECENT_EPISODES:]
    returns = [float(line["episode_return"]) for line in recent if line.get("episode_return") is not None]
    successes = [bool(line["success"]) for line in recent if line.get("success") is not None]
    success = f"  success {sum(successes) / len(successes):.0%}" if successes else ""
    mean = f"{sum(returns) / len(returns):.3g}" if returns else "unknown"
    return f"{len(episodes):,}  last {len(recent)}: return {mean}{success}"


def newest(lines: Iterable[Mapping[str, Any]], kind: str, keys: Iterable[str]) -> Mapping[str, Any] | None:
    """Return the last of ``lines`` that has the kind ``kind`` and one of ``keys``."""
    matches = [line for line in lines if line.get("kind") == kind and any(key in line for key in keys)]
    return matches[-1] if matches else None


def step_rate(lines: Iterable[Mapping[str, Any]]) -> float | None:
    """Return environment steps per second of wall-clock time over the last minute, or None if it is unknown."""
    points = sorted((float(line["wall_seconds"]), int(line["step"])) for line in lines)
    if not points:
        return None
    recent = [point for point in points if point[0] >= points[-1][0] - RECENT_SECONDS]
    seconds, steps = recent[-1][0] - recent[0][0], recent[-1][1] - recent[0][1]
    return steps / seconds if seconds > 0 else None


def sparkline(values: list[float], top: float | None = None) -> str:
    """Return the last values as a one-line curve; ``top`` is the value of the highest level, by default the maximum."""
    recent = values[-CURVE:]
    low = min(0.0, *recent)
    span = (max(recent) if top is None else top) - low
    levels = [0 if span <= 0 else round((value - low) / span * (len(LEVELS) - 1)) for value in recent]
    return "".join(LEVELS[min(max(level, 0), len(LEVELS) - 1)] for level in levels)


def duration(seconds: float) -> str:
    """Return ``seconds`` as h:mm:ss."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"

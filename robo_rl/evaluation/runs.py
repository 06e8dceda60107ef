"""Readers of run folders, including those of runs that were killed: missing parts are reported as problems."""

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..core import ENTRIES, DataError, ForeignFolder, load_options, nearest
from .run_evaluations import Evaluations
from .run_files import read_metrics, read_summary
from .statistics import Proportion

# Options in which runs of one group may differ: those that identify a run, and those that do not affect learning.
_IDENTITY = ("seed", "logging", "resume", "resumed", "choices")
_LOOKED_AT = (
    "run.dir",
    "run.overwrite",
    "run.evaluation_interval",
    "run.evaluation_episodes",
    "run.final_evaluation_episodes",
    "run.video_episodes",
    "run.checkpoint_interval",
    "run.keep_checkpoints",
)
_PLACES = ("certificates", "token_file", "emergency_stop.file")
_SECTIONS = ("task", "agent", "run", "safety")
_FILES = ("config.yaml", "metrics.jsonl", "summary.json")
MOST_VIDEOS = 200
POSTER = ".jpg"
"""Suffix of the picture of a video."""
VIDEO_BYTES = 128 << 20
"""Most bytes that are read of a video, and of all videos in a page."""
LEVELS = 16
"""Depth of nested folders in which runs are searched for."""


@dataclass(frozen=True)
class Run:
    """One training run, as read from its folder.

    Attributes:
        path: the run folder.
        config: nested configuration; empty if config.yaml is missing.
        metrics: the lines of metrics.jsonl, in order.
        summary: content of summary.json, or None if the run did not end cleanly.
        problems: a sentence for each missing or damaged part.
    """

    path: Path
    config: Mapping[str, Any]
    metrics: tuple[Mapping[str, Any], ...]
    summary: Mapping[str, Any] | None
    problems: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.name

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The configuration with dotted keys, without options that do not affect the result.

        Options are left out that identify the run, that are paths in its folder, or that say how often the run is
        evaluated and saved. The options for the length of the run (``run.env_steps``, ``run.stop_at_success_rate`` and
        ``run.stop_at_return``) are kept, because results after 1,000 and after 6,000 steps are not comparable. Their
        values are those at the start of the run: a run that ended earlier by the same rule, was interrupted, or was
        extended by ``resume`` stays in its group.
        """
        flat = flatten(self.config)
        folder_prefix = f"{flat.get('run.dir')}{os.sep}"
        return {
            key: value
            for key, value in flat.items()
            if key.split(".")[0] not in _IDENTITY
            and key not in _LOOKED_AT
            and not key.endswith(_PLACES)
            and not (isinstance(value, str) and value.startswith(folder_prefix))
        }

    @property
    def task(self) -> str:
        """Name of the task."""
        return self._name_of("task")

    @property
    def agent(self) -> str:
        """Name of the agent."""
        return self._name_of("agent")

    def _name_of(self, group: str) -> str:
        node = self.config.get(group)
        options = node if isinstance(node, Mapping) else {}
        value = self.config.get("choices")
        choices = value if isinstance(value, Mapping) else {}
        names = ((self.summary or {}).get(group), options.get("name"), options.get("env_id"), choices.get(group))
        return next((str(name) for name in names if name), "unknown")

    @property
    def seed(self) -> int | None:
        """Seed of the run, if it is known and a whole number."""
        value = (self.summary or {}).get("seed", self.config.get("seed"))
        return value if isinstance(value, int) else None

    @property
    def env_steps(self) -> int:
        """Number of environment steps."""
        last = max((int(line["step"]) for line in self.metrics), default=0)
        return int((self.summary or {}).get("env_steps", last))

    @property
    def wanted_steps(self) -> int | None:
        """Configured number of environment steps, as of the last start or resume; None if it is unknown."""
        flat = flatten(self.config)
        steps = flat.get("resumed.run.env_steps", flat.get("run.env_steps"))
        return steps if isinstance(steps, int) else None

    @property
    def wall_seconds(self) -> float:
        """Wall-clock time spent [s]."""
        last = max((float(line["wall_seconds"]) for line in self.metrics), default=0.0)
        return float((self.summary or {}).get("wall_seconds", last))

    @cached_property
    def control_rate(self) -> float | None:
        """Control steps per second [Hz], from the summary or the configuration; None if it is unknown."""
        minutes = (self.summary or {}).get("robot_minutes")
        if minutes and self.env_steps and (rate := round(self.env_steps / (60.0 * float(minutes)), 6)) > 0:
            return rate
        values = [value for key, value in flatten(self.config).items() if key.rpartition(".")[2] == "control_rate"]
        rates = [value for value in values if isinstance(value, int | float) and 0 < value <= sys.float_info.max]
        return float(rates[0]) if rates and values == [rates[0]] * len(values) else None

    @property
    def robot_minutes(self) -> float | None:
        """Robot time [min]: environment steps over control rate; None if the control rate is unknown."""
        return None if self.control_rate is None else self.env_steps / self.control_rate / 60.0

    @cached_property
    def evaluations(self) -> Evaluations:
        """The evaluations in ``metrics``."""
        return Evaluations(self.metrics)

    @property
    def status(self) -> str:
        """The end of the run: ``completed``, ``reached``, ``interrupted`` or ``diverged``; otherwise ``unfinished``."""
        return str((self.summary or {}).get("status", "completed" if self.summary else "unfinished"))

    @property
    def success_rate(self) -> Proportion | None:
        """Success rate of the final evaluation or, if the run did not reach it, of the last evaluation."""
        final = (self.summary or {}).get("success_rate")
        if final is not None:
            return Proportion(**{key: final[key] for key in ("value", "low", "high", "episodes")})
        return self.evaluations.success_rate

    @cached_property
    def videos(self) -> list[Path]:
        """Videos in the run folder, sorted by name; links are left out."""
        return [self.path / "videos" / name for name in ForeignFolder(self.path).files("videos", ".mp4", MOST_VIDEOS)]


def load_run(path: Path, going_on: bool = False) -> Run:
    """Read a run folder. All parts that exist are used; missing and damaged parts are described in ``problems``.

    Args:
        path: run folder.
        going_on: whether a process is still working on the run; the summary of an earlier process is then ignored.

    Raises:
        DataError: if the folder holds no file of a run.
    """
    if not is_run(path):
        raise DataError(f"{path}: expected a run folder with {', '.join(_FILES)}")
    problems: list[str] = []
    folder = ForeignFolder(path)
    config, summary = {}, None
    try:
        loaded = load_options(path / "config.yaml")
        if not all(isinstance(loaded.get(name) or {}, dict) for name in _SECTIONS):
            raise ValueError("expected sections, found an end within one")
        config = {str(key): value for key, value in loaded.items()}
    except FileNotFoundError:
        problems.append("config.yaml is missing")
    except (DataError, OSError, ValueError) as error:
        problems.append(f"config.yaml cannot be read ({error})")
    metrics = read_metrics(folder, problems)
    try:
        if not going_on:
            summary = read_summary(folder)
    except FileNotFoundError:
        problems.append("no summary.json: the run is still active or was killed; figures are those of its last line")
    except (DataError, OSError, ValueError, KeyError, TypeError, AttributeError):
        problems.append("summary.json is damaged; figures are those of the last line of metrics.jsonl")
    if summary is not None and summary.get("status") in ("interrupted", "diverged"):
        problems.append(
            f"{summary['status']} at step {summary.get('env_steps')}; success is that of the last evaluation"
        )
    return Run(path, config, metrics, summary, tuple(problems))


def has_cloned(run: Run) -> bool:
    """Return whether the policy of a run before the first environment step is a clone of demonstrations.

    It is none if the run started from another one, or if its agent learned offline after cloning. In earlier versions
    SAC had ``offline_steps`` too, of its critics alone.
    """
    agent = run.config.get("agent")
    if not isinstance(agent, Mapping) or _starts_from_run(run):
        return False
    if agent.get("offline_steps") and "pretrain_critics" not in agent:
        return False
    return _has_pretrained(run) and run.evaluations.demonstrations_success_rate is not None


def _starts_from_run(run: Run) -> bool:
    start = run.config.get("start")
    return isinstance(start, Mapping) and start.get("run") is not None


def _has_pretrained(run: Run) -> bool:
    agent = run.config.get("agent")
    return isinstance(agent, Mapping) and bool(agent.get("pretrain_steps"))


def first_policy(run: Run) -> str:
    """Return the name of the policy of a run before the first environment step; empty if it is nothing particular."""
    base = run.config.get("base")
    if isinstance(base, Mapping) and any(base.get(key) is not None for key in ("run", "policy")):
        return "" if _starts_from_run(run) or _has_pretrained(run) else "base policy"
    return "cloning alone" if has_cloned(run) else ""


def is_run(path: Path) -> bool:
    """Return whether ``path`` is a folder that holds a file of a run."""
    return any(os.path.isfile(path / name) for name in _FILES)  # noqa: PTH113 - also false without permission to look


def find_runs(patterns: Iterable[str]) -> list[Path]:
    """Return the run folders that ``patterns`` name: run folders, folders of runs (a sweep), or globs of either.

    Each run is returned once, under the path by which it was found first, even if several patterns or links lead to it:
    a run that counts twice would make an interval over seeds too narrow.

    Raises:
        DataError: if a pattern leads to no run.
    """
    runs_by_target: dict[Path, Path] = {}
    for pattern in patterns:
        runs = [run for match in matching(pattern) for run in runs_below(match)]
        if not runs:
            path = Path(pattern).expanduser()
            folder = path.parent if path.parent.is_dir() else Path()
            names = [entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
            other_names = [name for name in names if name != path.name]
            choices = f"; in folder {folder}: {nearest(path.name, other_names)}" if other_names else ""
            raise DataError(f"no run found at {pattern!r}{choices}")
        for run in runs:
            runs_by_target.setdefault(run.resolve(), run)
    return list(runs_by_target.values())


def matching(pattern: str) -> list[Path]:
    """Return the paths that a pattern names: one path, or the matches of a glob except hidden ones.

    Raises:
        DataError: if the pattern is neither an existing path nor a valid glob.
    """
    path = Path(pattern).expanduser()
    if path.exists():
        return [path]
    anchor = Path(path.anchor) if path.is_absolute() else Path()
    try:
        return [match for match in sorted(anchor.glob(str(path.relative_to(path.anchor)))) if match.name[:1] != "."]
    except ValueError as error:
        raise DataError(f"{pattern!r} is neither a folder nor a glob ({error})") from error


def folders_in(path: Path) -> list[Path]:
    """Return the folders in a folder, links last, without hidden ones; at most :data:`ENTRIES` entries are read."""
    try:
        entries = list(itertools.islice(path.iterdir(), ENTRIES))
    except OSError:  # for example without permission
        return []
    below = [entry for entry in entries if not entry.name.startswith(".") and os.path.isdir(entry)]  # noqa: PTH112 - as in is_run
    return sorted(below, key=lambda entry: (entry.is_symlink(), entry))  # a run comes before links to it


def runs_below(path: Path, above: tuple[Path, ...] = (), budget: Iterator[int] | None = None) -> list[Path]:
    """Return the run folders at or below ``path``. Folders inside a run folder and hidden folders are not searched.

    Links in ``path`` itself are followed. Further below, only links to run folders are followed.

    Args:
        path: run folder, or folder to search.
        above: parent folders in which the search is already under way.
        budget: yields a value for each folder that may still be searched.

    Raises:
        DataError: if there are more than :data:`ENTRIES` folders.
    """
    budget = iter(range(ENTRIES)) if budget is None else budget
    if next(budget, None) is None:
        raise DataError(f"{above[0]}: more than {ENTRIES:,} folders; name those of the runs")
    if is_run(path):
        return [path]
    is_followed = len(above) <= 1 or not path.is_symlink()
    if not is_followed or len(above) > LEVELS or path.resolve() in above:
        return []
    return [run for entry in folders_in(path) for run in runs_below(entry, (*above, path.resolve()), budget)]


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping with dotted keys; lists are not flattened."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{name}."))
        else:
            flat[name] = value
    return flat


def differences(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the sorted keys whose values differ between ``settings``."""
    keys = sorted({key for options in settings for key in options})
    absent = object()
    return [
        key for key in keys if any(options.get(key, absent) != settings[0].get(key, absent) for options in settings)
    ]

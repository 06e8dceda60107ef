"""Reading run folders, also those of runs that were killed: what was written counts, what is missing is said."""

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf

from ..core import ENTRIES, DataError, ForeignFolder, load_config, nearest
from .run_evaluations import Evaluations
from .run_files import read_metrics, read_summary
from .statistics import Proportion

# What tells a run from its siblings of another seed, and what does not change how it learns.
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
VIDEO_BYTES = 128 << 20
"""Most that is read of a video, and of all videos that a page holds."""
LEVELS = 16
"""Folders within folders in which runs are looked for."""


@dataclass(frozen=True)
class Run:
    """One training run as its folder shows it.

    Attributes:
        path: the run folder.
        config: nested configuration; empty if config.yaml is missing.
        metrics: the lines of metrics.jsonl, in order.
        summary: summary.json, or None if the run did not end cleanly.
        problems: what is missing or damaged, one sentence each.
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
        """The configuration with dotted keys, without what only identifies the run and what lies in its folder.

        Nor does it have how often the run was evaluated and saved. How long it was to be (``run.env_steps``, and
        ``run.stop_at_success_rate`` and ``run.stop_at_return``) is there: what runs came to after 1,000 and after 6,000
        steps are no two results of one kind. It is what the run began with that counts: one that ended earlier by the
        same rule, was interrupted, or was extended by ``resume`` stays with its siblings.
        """
        flat = flatten(self.config)
        own = f"{flat.get('run.dir')}{os.sep}"
        return {
            key: value
            for key, value in flat.items()
            if key.split(".")[0] not in _IDENTITY
            and key not in _LOOKED_AT
            and not key.endswith(_PLACES)
            and not (isinstance(value, str) and value.startswith(own))
        }

    @property
    def task(self) -> str:
        """Name of the task."""
        return self._named("task")

    @property
    def agent(self) -> str:
        """Name of the agent."""
        return self._named("agent")

    def _named(self, group: str) -> str:
        node = self.config.get(group)
        options = node if isinstance(node, Mapping) else {}
        choices = self.config.get("choices")
        chosen = choices if isinstance(choices, Mapping) else {}
        names = ((self.summary or {}).get(group), options.get("name"), options.get("env_id"), chosen.get(group))
        return next((str(name) for name in names if name), "unknown")

    @property
    def seed(self) -> int | None:
        """Seed of the run, if it is known and a whole number."""
        value = (self.summary or {}).get("seed", self.config.get("seed"))
        return value if isinstance(value, int) else None

    @property
    def env_steps(self) -> int:
        """Environment steps made."""
        last = max((int(line["step"]) for line in self.metrics), default=0)
        return int((self.summary or {}).get("env_steps", last))

    @property
    def wanted_steps(self) -> int | None:
        """Environment steps that it is to make, as was said last; None where nobody knows."""
        flat = flatten(self.config)
        wanted = flat.get("resumed.run.env_steps", flat.get("run.env_steps"))
        return wanted if isinstance(wanted, int) else None

    @property
    def wall_seconds(self) -> float:
        """Wall-clock time spent [s]."""
        last = max((float(line["wall_seconds"]) for line in self.metrics), default=0.0)
        return float((self.summary or {}).get("wall_seconds", last))

    @cached_property
    def control_rate(self) -> float | None:
        """Control steps per second [Hz], if the summary or the configuration tell."""
        minutes = (self.summary or {}).get("robot_minutes")
        if minutes and self.env_steps and (rate := round(self.env_steps / (60.0 * float(minutes)), 6)) > 0:
            return rate
        said = [value for key, value in flatten(self.config).items() if key.rpartition(".")[2] == "control_rate"]
        rates = [value for value in said if isinstance(value, int | float) and 0 < value <= sys.float_info.max]
        return float(rates[0]) if rates and said == [rates[0]] * len(said) else None

    @property
    def robot_minutes(self) -> float | None:
        """Time on the robot [min]: steps over control rate."""
        return None if self.control_rate is None else self.env_steps / self.control_rate / 60.0

    @cached_property
    def evaluations(self) -> Evaluations:
        """The evaluations in ``metrics``."""
        return Evaluations(self.metrics)

    @property
    def status(self) -> str:
        """How the run ended: ``completed``, ``reached``, ``interrupted`` or ``diverged``; else ``unfinished``."""
        return str((self.summary or {}).get("status", "completed" if self.summary else "unfinished"))

    @property
    def success_rate(self) -> Proportion | None:
        """Success in the final evaluation; where the run did not come to one, in its last evaluation."""
        final = (self.summary or {}).get("success_rate")
        if final is not None:
            return Proportion(**{key: final[key] for key in ("value", "low", "high", "episodes")})
        return self.evaluations.success_rate

    @property
    def videos(self) -> list[Path]:
        """Videos of the run, by name: files of its folder, and no links to others."""
        return [self.path / "videos" / name for name in ForeignFolder(self.path).files("videos", ".mp4", MOST_VIDEOS)]


def load_run(path: Path, going_on: bool = False) -> Run:
    """Read a run folder. Whatever part of it exists is used; the rest is named in ``problems``.

    Args:
        path: run folder.
        going_on: whether a process is busy with the run; what an earlier one wrote as its end counts no more then.

    Raises:
        DataError: if the folder holds nothing of a run.
    """
    if not is_run(path):
        raise DataError(f"{path}: expected a run folder with {', '.join(_FILES)}")
    problems: list[str] = []
    folder = ForeignFolder(path)
    config, summary = {}, None
    try:
        loaded = cast(dict[Any, Any], OmegaConf.to_container(load_config(path / "config.yaml"), resolve=False))
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
        problems.append("no summary.json: the run is still going on or was killed; figures are those of its last line")
    except (DataError, OSError, ValueError, KeyError, TypeError, AttributeError):
        problems.append("summary.json is damaged; figures are those of the last line of metrics.jsonl")
    if summary is not None and summary.get("status") in ("interrupted", "diverged"):
        problems.append(
            f"{summary['status']} at step {summary.get('env_steps')}; success is that of the last evaluation"
        )
    return Run(path, config, metrics, summary, tuple(problems))


def is_run(path: Path) -> bool:
    """Whether ``path`` is a folder that holds a part of a run."""
    return any(os.path.isfile(path / name) for name in _FILES)  # noqa: PTH113 - false, too, where it may not be looked at


def find_runs(patterns: Iterable[str]) -> list[Path]:
    """Return the run folders that ``patterns`` name: run folders, folders of runs (a sweep), or globs of either.

    Each is returned once, under the name by which it was found first, whatever else names it or links to it: a run
    that counts twice would make an interval over seeds too narrow.

    Raises:
        DataError: if a pattern leads to no run.
    """
    found: dict[Path, Path] = {}
    for pattern in patterns:
        runs = [run for match in matching(pattern) for run in runs_below(match)]
        if not runs:
            path = Path(pattern).expanduser()
            folder = path.parent if path.parent.is_dir() else Path()
            names = [entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
            others = [name for name in names if name != path.name]
            choices = f"; in {folder}: {nearest(path.name, others)}" if others else ""
            raise DataError(f"no run found at {pattern!r}{choices}")
        for run in runs:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def matching(pattern: str) -> list[Path]:
    """Return what a pattern names: one path, or what a glob matches but for hidden names.

    Raises:
        DataError: if it is neither.
    """
    path = Path(pattern).expanduser()
    if path.exists():
        return [path]
    anchor = Path(path.anchor) if path.is_absolute() else Path()
    try:
        return [each for each in sorted(anchor.glob(str(path.relative_to(path.anchor)))) if each.name[:1] != "."]
    except ValueError as error:
        raise DataError(f"{pattern!r} is neither a folder nor a glob ({error})") from error


def folders_in(path: Path) -> list[Path]:
    """Return the folders in a folder, links to some last; hidden ones are left out, and all that is beyond many."""
    try:
        entries = list(itertools.islice(path.iterdir(), ENTRIES))
    except OSError:  # what this user may not look at holds nothing to show
        return []
    below = [entry for entry in entries if not entry.name.startswith(".") and os.path.isdir(entry)]  # noqa: PTH112 - as in is_run
    return sorted(below, key=lambda entry: (entry.is_symlink(), entry))  # the run itself before a link to it


def runs_below(path: Path, above: tuple[Path, ...] = (), budget: Iterator[int] | None = None) -> list[Path]:
    """Return the run folders at or below ``path``. A run folder itself is not searched, nor a hidden one.

    Links are followed in ``path`` itself. Below it one that leads to a run counts, and no other is followed.

    Args:
        path: where to look.
        above: folders that are being searched already.
        budget: gives a value for each folder that may yet be looked at.

    Raises:
        DataError: if there are more than :data:`ENTRIES` folders.
    """
    budget = iter(range(ENTRIES)) if budget is None else budget
    if next(budget, None) is None:
        raise DataError(f"{above[0]}: more than {ENTRIES:,} folders; name those of the runs")
    if is_run(path):
        return [path]
    followed = len(above) <= 1 or not path.is_symlink()
    if not followed or len(above) > LEVELS or path.resolve() in above:
        return []
    return [run for entry in folders_in(path) for run in runs_below(entry, (*above, path.resolve()), budget)]


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one with dotted keys; lists stay values."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{name}."))
        else:
            flat[name] = value
    return flat


def differences(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys, sorted, whose values are not the same in all ``settings``."""
    keys = sorted({key for each in settings for key in each})
    absent = object()
    return [key for key in keys if any(each.get(key, absent) != settings[0].get(key, absent) for each in settings)]

"""Checks of the values in the files of a run folder."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..core import whole_number
from .run_start import check_start

_TEXTS = ("kind", "actor", "stopped", "warning", "blocked")
"""Keys of metrics.jsonl whose values are strings; all other values are numbers."""

_LARGEST = 1e300
"""Sums of larger numbers overflow."""

_MOST_STEPS = 10**12
"""Largest step of a line. Beyond 2^53, where JavaScript rounds, charts may draw the marks of an axis without end."""


def check_line(line: Any) -> None:
    """Check a line of metrics.jsonl: it must have a step, wall seconds and a kind; other values may be null.

    Raises:
        AttributeError, KeyError, TypeError or ValueError: if the line is invalid.
    """
    whole_number(line["step"], most=_MOST_STEPS)
    _check_numbers(line, [name for name in line if name not in _TEXTS])
    _check_numbers(line, ["wall_seconds"], required=True)
    if not isinstance(line["kind"], str):
        raise TypeError("kind must be a text")
    for name in _TEXTS:
        if not isinstance(line.get(name), str | None):
            raise TypeError(f"{name} must be a text")


def check_summary(summary: Any) -> None:
    """Check the content of summary.json.

    Raises:
        AttributeError, KeyError, TypeError or ValueError: if it is invalid.
    """
    if not isinstance(summary.get("versions", {}), dict):
        raise TypeError("versions must be texts by name")
    if "env_steps" in summary:
        whole_number(summary["env_steps"])
    _check_numbers(summary, {"wall_seconds"} & summary.keys(), required=True)
    _check_numbers(summary, ("robot_minutes", "return_mean", "updates_per_second"))
    for name in ("cycle_time", "demonstrations_cycle_time"):
        if summary.get(name) is not None:
            _check_numbers(summary[name], ("median", "percentile_90", "successes_per_hour"), required=True)
    if summary.get("started_from") is not None:
        check_start(summary["started_from"])
    for name, outcome in (summary.get("constraints") or {}).items():
        check_outcome(name, outcome)
    if summary.get("success_rate") is not None:
        _check_numbers(summary["success_rate"], ("value", "low", "high"), required=True)
        whole_number(summary["success_rate"]["episodes"])


def check_outcome(name: Any, outcome: Any) -> None:
    """Check the outcome of a constraint in summary.json.

    Raises:
        AttributeError, KeyError, TypeError or ValueError: if it is invalid.
    """
    if not all(isinstance(text, str) for text in (name, outcome["subject"], outcome["unit"])):
        raise TypeError("name, subject and unit of a constraint must be texts")
    if outcome["kind"] not in ("share", "mean", "success") or not isinstance(outcome["kept"], bool):
        raise ValueError("a constraint must be a share, a mean or success, and kept or not")
    numbers = ("value", "limit") if outcome["kind"] == "mean" else ("value", "limit", "low", "high")
    _check_numbers(outcome, numbers, required=True)


def check_episode(line: Any) -> None:
    """Check an episode in evaluation.json.

    Raises:
        AttributeError, KeyError, TypeError or ValueError: if it is invalid.
    """
    whole_number(line["index"])
    if not isinstance(line["success"], bool | None):
        raise TypeError("success must be true, false or null")
    if not all(isinstance(name, str) for name in line["start"]):
        raise TypeError("start must be numbers by name")
    _check_numbers(line["start"], line["start"].keys(), required=True)


def _check_numbers(values: Mapping[str, Any], names: Iterable[str], required: bool = False) -> None:
    for name in names:
        if required or values.get(name) is not None:
            if not isinstance(values[name], int | float):
                raise TypeError(f"{name} must be a number")
            if not abs(values[name]) <= _LARGEST:
                raise ValueError(f"{name} is infinite")

"""Evaluations in the metrics of a run."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from .statistics import Proportion


class Evaluations:
    """The evaluations in metrics.jsonl: the last line for each evaluated step, in order of steps.

    Args:
        metrics: lines of any kind.

    Attributes:
        lines: lines of evaluations.
    """

    def __init__(self, metrics: Iterable[Mapping[str, Any]]) -> None:
        lines = sorted(
            (line for line in metrics if line.get("kind") == "evaluation"), key=lambda line: int(line["step"])
        )
        self.lines = list({line["step"]: line for line in lines}.values())

    def curve(self, measure: str) -> tuple[list[int], list[float]]:
        """Return the evaluated steps and values of ``measure`` (``success_rate`` or ``return_mean``)."""
        lines = [line for line in self.lines if line.get(measure) is not None]
        return [int(line["step"]) for line in lines], [float(line[measure]) for line in lines]

    def success_rates(self) -> list[Proportion]:
        """Return the success rates of all evaluations in which success is known."""
        return list(map(_proportion, self._rated))

    @property
    def success_rate(self) -> Proportion | None:
        """Success rate of the last evaluation in which success is known; None if there is none."""
        return _proportion(self._rated[-1]) if self._rated else None

    @property
    def return_mean(self) -> float | None:
        """Mean return of the last evaluation that has one; None if there is none."""
        values = self.curve("return_mean")[1]
        return values[-1] if values else None

    @property
    def demonstrations_success_rate(self) -> float | None:
        """Share of successful demonstrations, of those that the run learned from; None if it is unknown."""
        values = self.curve("demonstrations_success_rate")[1]
        return values[-1] if values else None

    def before_first_step(self, measure: str) -> float | None:
        """Return the value of ``measure`` at step 0; None if there was no such evaluation."""
        steps, values = self.curve(measure)
        return values[0] if steps and steps[0] == 0 else None

    @property
    def steps_to_95(self) -> int | None:
        """First environment step at which an evaluation reached 95 % success, or None."""
        return None if self._first_solved is None else int(self._first_solved["step"])

    @property
    def wall_seconds_to_95(self) -> float | None:
        """Wall-clock time of the first evaluation that reached 95 % success [s], or None."""
        return None if self._first_solved is None else float(self._first_solved["wall_seconds"])

    @property
    def _rated(self) -> list[Mapping[str, Any]]:
        return [line for line in self.lines if line.get("success_rate") is not None]

    @cached_property
    def _first_solved(self) -> Mapping[str, Any] | None:
        return next((line for line in self.lines if (line.get("success_rate") or 0.0) >= 0.95), None)


def _proportion(line: Mapping[str, Any]) -> Proportion:
    episodes = max(1, int(line.get("episodes", 1)))
    return Proportion.of(round(float(line["success_rate"]) * episodes), episodes)

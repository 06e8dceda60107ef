"""Aggregation of runs that differ only in their seed: results by group and learning curves with bands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cycle_time import CycleTimes
from .runs import Run, differences, first_policy
from .statistics import (
    Interval,
    ThresholdSteps,
    align_curves,
    bootstrap_interval,
    interquartile_mean,
    steps_to_threshold,
)

FEW_RUNS = 5
"""Number of runs below which the coverage of a bootstrap interval is clearly lower than its confidence level."""


@dataclass(frozen=True)
class Group:
    """Runs of one task, agent and configuration.

    Attributes:
        label: agent and, if there are several groups of this task and agent, the settings in which they differ.
        runs: at least one run, sorted by seed.
    """

    label: str
    runs: tuple[Run, ...]

    @property
    def task(self) -> str:
        return self.runs[0].task

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings that all runs of the group share."""
        return self.runs[0].settings

    @property
    def control_rate(self) -> float | None:
        """Control steps per second [Hz], if it is known."""
        return next((run.control_rate for run in self.runs if run.control_rate is not None), None)

    def repeats(self) -> list[tuple[Run, ...]]:
        """Return the runs of each seed that several runs share.

        Such runs begin with the same weights and start states, or one is a copy of the other. They are not independent,
        so intervals over runs are too narrow. The user must decide which of them to count.
        """
        by_seed: dict[int, list[Run]] = {}
        for run in self.runs:
            if run.seed is not None:
                by_seed.setdefault(run.seed, []).append(run)
        return [tuple(runs) for runs in by_seed.values() if len(runs) > 1]

    def success(self) -> Interval | None:
        """Interquartile mean of the final success rates with its interval; None if success is unknown."""
        return _interquartile([run.success_rate.value for run in self.runs if run.success_rate is not None])

    def final_return(self) -> Interval | None:
        """Interquartile mean of the last mean returns with its interval; None if no run was evaluated."""
        return _interquartile(
            [run.evaluations.return_mean for run in self.runs if run.evaluations.return_mean is not None]
        )

    def seconds_to_success(self) -> Interval | None:
        """Interquartile mean of the median times to success [s]; None if no run is known to have succeeded."""
        return _interquartile([policy.median for policy, _ in self._cycle_times if policy])

    def relative_cycle_time(self) -> Interval | None:
        """Interquartile mean of the median times to success over those of the demonstrations; None if unknown."""
        return _interquartile(
            [
                policy.median / demonstrations.median
                for policy, demonstrations in self._cycle_times
                if policy and demonstrations
            ]
        )

    @property
    def _cycle_times(self) -> list[CycleTimes]:
        return [CycleTimes.of_summary(run.summary) for run in self.runs]

    def steps_to_95(self) -> ThresholdSteps | None:
        """Environment steps until an evaluation reached 95 % success; None if success is unknown."""
        if not any(run.evaluations.curve("success_rate")[0] for run in self.runs):
            return None
        return steps_to_threshold(
            [run.evaluations.steps_to_95 for run in self.runs], [run.env_steps for run in self.runs]
        )

    def wall_seconds_to_95(self) -> ThresholdSteps | None:
        """Wall-clock time [s] until an evaluation reached 95 % success; None if success is unknown."""
        if not any(run.evaluations.curve("success_rate")[0] for run in self.runs):
            return None
        times = [run.evaluations.wall_seconds_to_95 for run in self.runs]
        return steps_to_threshold(times, [run.wall_seconds for run in self.runs])


def _interquartile(values: Sequence[float]) -> Interval | None:
    """Return the interquartile mean of ``values``, one for each run; None if there are no values."""
    return bootstrap_interval(interquartile_mean, np.array(values)[:, None]) if values else None


@dataclass(frozen=True)
class Curve:
    """A learning curve over environment steps.

    Attributes:
        label: name of the line.
        measure: ``success_rate`` or ``return_mean``.
        steps: (p,) environment steps that every run covers.
        value: (p,) interquartile mean over runs.
        low: (p,) lower end of the 95 % band.
        high: (p,) upper end of the 95 % band.
        band: description of the band; empty if there is none.
        singles: steps and values of the individual runs, in their full length.
        first: interquartile mean over runs of what the policy reached before the first environment step; None if that
            was not measured, or the policy was nothing particular.
        first_name: name of that policy: ``cloning alone`` or ``base policy``.
        demonstrations: mean over runs of the success rate of the demonstrations; None if it is unknown, or not the
            measure.
    """

    label: str
    measure: str
    steps: NDArray[np.float64]
    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    band: str
    singles: tuple[tuple[list[int], list[float]], ...]
    first: float | None = None
    first_name: str = ""
    demonstrations: float | None = None


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """Group runs that have the same task, agent and settings; their seeds and run folders may differ.

    Two configurations of one agent are never averaged like seeds: they become two groups, whose labels name the
    settings in which they differ.
    """
    kinds: dict[tuple[str, str], list[list[Run]]] = {}
    for run in runs:
        groups = kinds.setdefault((run.task, run.agent), [])
        for group in groups:
            if group[0].settings == run.settings:
                group.append(run)
                break
        else:
            groups.append([run])
    result = []
    for (_, agent), groups in kinds.items():
        keys = differences([group[0].settings for group in groups])
        for group in groups:
            options = [f"{key.rpartition('.')[2]}={group[0].settings.get(key)}" for key in keys]
            label = " ".join([agent, *options[:3], *(["…"] if len(options) > 3 else [])])
            result.append(Group(label, tuple(sorted(group, key=lambda run: (run.seed or 0, run.name)))))
    return result


def learning_curve(group: Group, measure: str) -> Curve | None:
    """Return the group's curve of ``measure``, or None if no run was evaluated.

    The middle line and the band end where the shortest evaluated run ends. With several runs, the band is the pointwise
    95 % bootstrap interval over runs; with one run and a success rate, it is the Wilson interval over its episodes.
    """
    evaluated = [(run, run.evaluations.curve(measure)) for run in group.runs]
    evaluated = [(run, curve) for run, curve in evaluated if curve[0]]
    if not evaluated:
        return None
    steps, values = align_curves([curve for _, curve in evaluated])
    value = interquartile_mean(values) if steps.size else np.zeros(0)
    low, high, band = value, value, ""
    if len(evaluated) > 1 and steps.size:
        interval = bootstrap_interval(interquartile_mean, values, repetitions=2_000)
        low, high, band = interval.low, interval.high, "95 % bootstrap interval over runs"
    elif measure == "success_rate" and steps.size == len(evaluated[0][1][0]):
        rates = evaluated[0][0].evaluations.success_rates()
        low, high = np.array([rate.low for rate in rates]), np.array([rate.high for rate in rates])
        band = "95 % Wilson interval over evaluation episodes"
    singles = tuple(curve for _, curve in evaluated)
    demonstrated = [run.evaluations.demonstrations_success_rate for run, _ in evaluated]
    shares = [share for share in demonstrated if share is not None]
    named = [(first_policy(run), run.evaluations.before_first_step(measure)) for run, _ in evaluated]
    first = [value for name, value in named if name and value is not None]
    return Curve(
        *(group.label, measure, steps, value, low, high, band, singles),
        first=float(interquartile_mean(np.array(first)[:, None])) if first else None,
        first_name=named[0][0],
        demonstrations=sum(shares) / len(shares) if shares and measure == "success_rate" else None,
    )


def measure_of(groups: Sequence[Group]) -> str:
    """Return the measure of a task's curves: the success rate if it is known, otherwise the return."""
    is_success_known = any(run.evaluations.curve("success_rate")[0] for group in groups for run in group.runs)
    return "success_rate" if is_success_known else "return_mean"

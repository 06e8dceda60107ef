"""Time that a policy or a person takes to solve a task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class CycleTime:
    """Robot time from the beginning of an episode to success, without the time of resets.

    Attributes:
        median: median over the successful episodes [s].
        percentile_90: 90th percentile over the successful episodes [s].
        successes_per_hour: number of successes over the time of all episodes, including failed ones [1/h].
    """

    median: float
    percentile_90: float
    successes_per_hour: float

    @classmethod
    def of(cls, steps: Sequence[int], successes: Sequence[bool | None], control_rate: float) -> "CycleTime | None":
        """Return the cycle time of some episodes; None if no episode is known to have succeeded.

        Args:
            steps: control steps of each episode until success or, if it failed, until its end.
            successes: whether each episode succeeded; None (unknown) counts as a failure.
            control_rate: control steps per second [Hz].
        """
        seconds = np.asarray(steps, np.float64) / control_rate
        solved = seconds[np.array([success is True for success in successes], np.bool_)]
        if solved.size == 0 or seconds.sum() == 0:
            return None
        median, percentile_90 = np.percentile(solved, (50, 90))
        return cls(float(median), float(percentile_90), float(SECONDS_PER_HOUR * solved.size / seconds.sum()))

    def __str__(self) -> str:
        return f"{self.median:.1f} s (median; 90 % within {self.percentile_90:.1f} s)"


class CycleTimes(NamedTuple):
    """Cycle times in a run's summary.json; None if it has none.

    Attributes:
        policy: cycle time in the final evaluation.
        demonstrations: cycle time of the demonstrations.
    """

    policy: CycleTime | None
    demonstrations: CycleTime | None

    @classmethod
    def of_summary(cls, summary: Mapping[str, Any] | None) -> "CycleTimes":
        """Return the cycle times of a checked ``summary``; None: there is no summary."""
        names, facts = [field.name for field in fields(CycleTime)], summary or {}
        times = (facts.get(key) for key in ("cycle_time", "demonstrations_cycle_time"))
        return cls(*(None if time is None else CycleTime(**{name: time[name] for name in names}) for time in times))


def cycle_time_lines(cycle_time: CycleTime, demonstrated: CycleTime | None) -> Iterator[str]:
    """Yield lines that describe a cycle time and compare it with that of the demonstrations, if this is known."""
    yield f"Time to success {cycle_time}, {cycle_time.successes_per_hour:,.0f} successes an hour without resets"
    if demonstrated is not None:
        ratio = cycle_time.median / demonstrated.median
        yield f"The demonstrations took {demonstrated}: the policy takes {ratio:.2f} times as long"

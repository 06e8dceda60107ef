"""The time that a policy, or a person, takes to solve a task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class CycleTime:
    """Robot time from the beginning of an episode to success. The time of resets is not part of it.

    Attributes:
        median: of the episodes that succeeded [s].
        percentile_90: of the episodes that succeeded [s].
        successes_per_hour: successes over the time of all episodes, those that failed included [1/h].
    """

    median: float
    percentile_90: float
    successes_per_hour: float

    @classmethod
    def of(cls, steps: Sequence[int], successes: Sequence[bool | None], control_rate: float) -> "CycleTime | None":
        """Return the cycle time of some episodes; None where none is known to have succeeded.

        Args:
            steps: of each episode, to success or, where it failed, to its end.
            successes: whether each succeeded; None, where that is not known, counts as a failure.
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
    """What a run's summary.json says of cycle times; None where it says nothing.

    Attributes:
        policy: in the final evaluation.
        demonstrations: of the demonstrations.
    """

    policy: CycleTime | None
    demonstrations: CycleTime | None

    @classmethod
    def of_summary(cls, summary: Mapping[str, Any] | None) -> "CycleTimes":
        """Return those of a checked ``summary``; None: there is none."""
        names, found = [field.name for field in fields(CycleTime)], summary or {}
        times = (found.get(key) for key in ("cycle_time", "demonstrations_cycle_time"))
        return cls(*(None if each is None else CycleTime(**{name: each[name] for name in names}) for each in times))


def cycle_time_lines(cycle_time: CycleTime, demonstrated: CycleTime | None) -> Iterator[str]:
    """Describe a cycle time beside that of the demonstrations, where it is known."""
    yield f"Time to success {cycle_time}, {cycle_time.successes_per_hour:,.0f} successes an hour without resets"
    if demonstrated is not None:
        times = cycle_time.median / demonstrated.median
        yield f"The demonstrations took {demonstrated}: the policy takes {times:.2f} times as long"

"""What safety did in a run, counted."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..core import SafetyStop, Verdict

MAX_STOPS = 3
"""So many episodes in a row that are stopped before their first step call for a person."""


class SafetyRecord:
    """Counts steps that safety changed, episodes that it stopped, and why.

    Args:
        state: counts to go on from, as :meth:`state` gave them.

    Attributes:
        awaits_release: whether the robot waits to be let go on, and no step came after that.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {"changed_steps": 0, "stopped_episodes": 0, "reasons": {}}
        self.changed_steps = int(state["changed_steps"])
        self.stopped_episodes = int(state["stopped_episodes"])
        self.reasons: Counter[str] = Counter(state["reasons"])
        self._stops_in_a_row = 0
        self.awaits_release = False

    def count(self, verdict: Verdict) -> None:
        """Take note of the verdict on a step."""
        self._stops_in_a_row = 0
        self.awaits_release = False
        self.changed_steps += verdict.changed
        self.stopped_episodes += verdict.stop
        self.reasons.update(verdict.reasons)

    def stopped(self, stop: SafetyStop) -> None:
        """Take note of an episode that ended without a step.

        Raises:
            SafetyStop: the third time in a row: no step was possible in between, so a person must look. What is waited
                for (:attr:`SafetyStop.waits`) does not count.
        """
        self.awaits_release = stop.waits
        self.stopped_episodes += 1
        self.reasons[stop.reason] += 1
        self._stops_in_a_row += not stop.waits
        if self._stops_in_a_row >= MAX_STOPS:
            raise SafetyStop(
                stop.reason, f"stopped {MAX_STOPS} times in a row without a step in between: {stop}. Look at the robot"
            ) from stop

    def metrics(self) -> dict[str, int]:
        """Return the counts so far by name, for the metrics of a run."""
        reasons = {f"safety/{name}": count for name, count in sorted(self.reasons.items())}
        return {
            "safety/changed_steps": self.changed_steps,
            "safety/stopped_episodes": self.stopped_episodes,
            **reasons,
        }

    def state(self) -> dict[str, Any]:
        """Return all counts as JSON values."""
        return {
            "changed_steps": self.changed_steps,
            "stopped_episodes": self.stopped_episodes,
            "reasons": dict(sorted(self.reasons.items())),
        }

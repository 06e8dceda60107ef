"""Counts of the actions of the safety filters in a run."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..core import SafetyStop, Verdict, whole_number
from ..safety import ChangeNotices

MAX_STOPS = 3
"""Number of consecutive episodes stopped before their first step after which a person has to look."""


class SafetyRecord:
    """Counts the steps that safety filters changed and the episodes that they stopped, by reason.

    Args:
        state: counts to continue from, as returned by :meth:`state`.

    Attributes:
        awaits_release: whether the robot waits to be released, and has taken no step since.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {"changed_steps": 0, "stopped_episodes": 0, "reasons": {}}
        self.changed_steps = whole_number(state["changed_steps"])
        self.stopped_episodes = whole_number(state["stopped_episodes"])
        self.reasons = Counter[str]({name: whole_number(count) for name, count in state["reasons"].items()})
        self._stops_in_a_row = 0
        self._notices = ChangeNotices()
        self.awaits_release = False

    def count(self, verdict: Verdict) -> str | None:
        """Record the verdict on a step; return a notice for operators, if any (:class:`ChangeNotices`)."""
        self._stops_in_a_row = 0
        self.awaits_release = False
        self.changed_steps += verdict.changed
        self.stopped_episodes += verdict.stop
        self.reasons.update(verdict.reasons)
        return self._notices.count(verdict)

    def stopped(self, stop: SafetyStop) -> None:
        """Record an episode that ended without a step.

        Raises:
            SafetyStop: the third time in a row without a step in between, because a person has to look. Stops that wait
                for a person (:attr:`SafetyStop.waits`) do not count.
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

"""What safety did in a run, counted."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..core import SafetyStop, Verdict

MAX_STOPS = 3
"""So many episodes in a row that are stopped before their first step call for a person."""


WINDOW_STEPS = 200
NOTICE_SHARE = 0.1
"""Of the actions of a window: what one filter changes beyond that is said."""
HINTS = {
    "contact": ". Is the wrist's sensor tared (robot.tare.seconds=0.5), and is safety.contact.force what the robot may "
    "bear?",
    "workspace": ". Is the box of safety.workspace where the task is?",
    "speed": ". Do actions ask for more than safety.speed allows?",
    "joint_limits": ". Do actions ask for more than safety.joints allows?",
    "end_effector": ". Is the task near the border of safety.workspace?",
    "singularity": ". Is the task where the arm is stretched?",
    "barrier": ". Is the task near task.keep_out, or the arm near itself?",
    "observation_stale": ". Do sources give measurements at the control rate?",
}
"""What to look at, by reason."""


class ChangeNotices:
    """Finds reasons for which more than a tenth of the actions are changed, over and over.

    Such a robot moves otherwise than its policy asks, and learns from that. Each reason is said for its first such
    window, then for its second, fourth, eighth and so on.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._changes: Counter[str] = Counter()
        self._windows: Counter[str] = Counter()

    def count(self, verdict: Verdict) -> str | None:
        """Take note of the verdict on a step; return what people should know now."""
        self._steps += 1
        if verdict.changed:
            self._changes.update(set(verdict.reasons))
        if self._steps < WINDOW_STEPS:
            return None
        changes, self._changes, self._steps = self._changes, Counter(), 0
        often = {reason: count for reason, count in changes.items() if count > NOTICE_SHARE * WINDOW_STEPS}
        self._windows.update(often.keys())
        notices = [
            f"safety changed {count} of the last {WINDOW_STEPS} actions by {reason}{HINTS.get(reason, '')}"
            for reason, count in sorted(often.items())
            if self._windows[reason].bit_count() == 1  # a power of two
        ]
        return "; ".join(notices) or None


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
        self._notices = ChangeNotices()
        self.awaits_release = False

    def count(self, verdict: Verdict) -> str | None:
        """Take note of the verdict on a step; return what people should know now (:class:`ChangeNotices`)."""
        self._stops_in_a_row = 0
        self.awaits_release = False
        self.changed_steps += verdict.changed
        self.stopped_episodes += verdict.stop
        self.reasons.update(verdict.reasons)
        return self._notices.count(verdict)

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

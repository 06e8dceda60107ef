"""Notices for people when safety filters change many actions."""

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import PASSED, EnvBackend, Step, Verdict, WrappedBackend

WINDOW_STEPS = 200
FEWEST_STEPS = 20
"""Smallest number of steps that is judged at the end."""
NOTICE_SHARE = 0.1
"""Share of the actions of a window; if one filter changes more, it is reported."""
HINTS = {
    "contact": ". Is the wrist's sensor tared (robot.tare.seconds=0.5), and does safety.contact.force suit the robot?",
    "workspace": ". Is the box of safety.workspace where the task is?",
    "speed": ". Do actions ask for more than safety.speed allows?",
    "joint_limits": ". Do actions ask for more than safety.joints allows?",
    "end_effector": ". Is the task near the border of safety.workspace?",
    "singularity": ". Is the task where the arm is stretched?",
    "barrier": ". Is the task near task.keep_out, or the arm near itself?",
    "observation_stale": ". Do sources give measurements at the control rate?",
}
"""Advice by reason."""


class ChangeNotices:
    """A search for reasons for which more than a tenth of the actions are changed again and again.

    Such a robot moves differently from what its policy requests, and learns from that. Each reason is reported for its
    first such window, then for its second, fourth, eighth and so on.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._changes: Counter[str] = Counter()
        self._windows: Counter[str] = Counter()

    def count(self, verdict: Verdict) -> str | None:
        """Record the verdict on a step; return a notice for operators, if there is one."""
        self._steps += 1
        if verdict.changed:
            self._changes.update(set(verdict.reasons))
        return None if self._steps < WINDOW_STEPS else self._notice()

    def end(self) -> str | None:
        """Return a notice on the steps since the last full window, if they are enough to judge; nothing follows."""
        return None if self._steps < FEWEST_STEPS else self._notice()

    def _notice(self) -> str | None:
        """Return the notice on the window that ends now, if there is one."""
        changes, steps, self._changes, self._steps = self._changes, self._steps, Counter(), 0
        often = {reason: count for reason, count in changes.items() if count > NOTICE_SHARE * steps}
        self._windows.update(often.keys())
        notices = [
            f"safety changed {count} of the last {steps} actions by {reason}{HINTS.get(reason, '')}"
            for reason, count in sorted(often.items())
            if self._windows[reason].bit_count() == 1  # a power of two
        ]
        return "; ".join(notices) or None


class NoticingBackend(WrappedBackend):
    """An :class:`EnvBackend` that reports when the safety filters inside it change many actions.

    A training reports this itself (``SafetyRecord``); this is for commands that only execute a policy.

    Args:
        backend: backend with safety filters inside.
        say: shows a text to the operator.
    """

    def __init__(self, backend: EnvBackend, say: Callable[[str], object]) -> None:
        super().__init__(backend)
        self._notices, self._say, self._steps = ChangeNotices(), say, 0

    def reset(self, seed: int | None = None) -> Step:
        return self.inner.reset(seed)

    def step(self, action: NDArray[np.float32]) -> Step:
        step = self.inner.step(action)
        self._steps += 1
        self._report(self._notices.count(step.verdict or PASSED))
        return step

    def close(self) -> None:
        self._report(self._notices.end())
        super().close()

    def _report(self, notice: str | None) -> None:
        if notice is not None:
            self._say(f"At step {self._steps}: {notice}")

"""The limit on the age of the observation that an action is based on."""

import numpy as np

from robo_rl.core import SafetyStop, Step, Verdict

from .chain import FILTER_FAULT, FilterChain
from .motion import Action

MAX_AGE = 0.1
"""Largest age of an observation when the robot acts on it, if the robot does not state one [s]."""


class AgeLimit:
    """A filter chain that brings the robot to rest, within its limits, when the observation is too old.

    An action is not executed either if the filters took longer than observations may be old: what it reacts to has
    passed. The robot has long been without a command then, so it is stopped.

    Args:
        chain: filters of actions.
        max_age: largest age of the observation [s]; None for the robot's own limit (``Step.expires_ns``) or, without
            one, :data:`MAX_AGE`; infinite to allow any age.
        stale_steps: number of steps in a row on older observations that stop the robot.
    """

    def __init__(self, chain: FilterChain, max_age: float | None, stale_steps: int) -> None:
        self._chain = chain
        self._max_age = max_age
        self._stale_steps = stale_steps
        self._stale = 0

    def reset(self) -> None:
        """Begin an episode.

        Raises:
            SafetyStop: if a filter fails.
        """
        self._stale = 0
        self._chain.reset()

    def __call__(self, last: Step, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return the filtered ``action`` or, if ``last`` has become too old, the filtered action that holds still.

        Raises:
            SafetyStop: after too many steps in a row on observations that were too old.
        """
        age_ns, allowed_ns = now_ns - last.stamp_ns, self._allowed_ns(last)
        if age_ns <= allowed_ns:
            self._stale = 0
            return self._chain(last.observation, action, now_ns)
        self._stale += 1
        message = f"the observation is {age_ns * 1e-9:.3f} s old, {allowed_ns * 1e-9:.3g} s are allowed"
        if self._stale >= self._stale_steps:
            raise SafetyStop("observation_stale", f"{message}, for {self._stale} steps in a row")
        if np.isfinite(action).all():  # the chain handles NaN
            action = self._chain.hold(last.observation, action)
        # Through the filters as well: joints brake within their limits, and what they do next is compared with this.
        executed, verdict = self._chain(last.observation, action, now_ns, held=True)
        return executed, Verdict(
            changed=True,
            stop=verdict.stop,
            reasons=(*verdict.reasons, "observation_stale"),
            message="; ".join(text for text in (verdict.message, message) if text),
        )

    def check_duration(self, last: Step, taken_ns: int) -> None:
        """Check the time that the filters took for the action after ``last``.

        Raises:
            SafetyStop: if it is longer than the observation may be old.
        """
        allowed_ns = self._allowed_ns(last)
        if taken_ns > allowed_ns:
            raise SafetyStop(
                FILTER_FAULT,
                f"the safety filters took {taken_ns * 1e-9:.2f} s for one action, but {allowed_ns * 1e-9:.3g} s are "
                "allowed: does one of safety.filters wait for something?",
            )

    def _allowed_ns(self, last: Step) -> float:
        """Return the largest age of the observation of ``last`` [ns]."""
        if self._max_age is None and last.expires_ns is not None:
            return last.expires_ns - last.stamp_ns
        return 1e9 * (MAX_AGE if self._max_age is None else self._max_age)

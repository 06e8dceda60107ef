"""The limit on the age of the observation that an action is based on."""

import numpy as np

from robo_rl.core import SafetyStop, Step, Verdict

from .chain import FilterChain
from .motion import Action

MAX_AGE = 0.1
"""Largest age of an observation when the robot acts on it, if the robot does not state one [s]."""


class AgeLimit:
    """A filter chain that brings the robot to rest, within its limits, when the observation is too old.

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
        age_ns = now_ns - last.stamp_ns
        if self._max_age is None and last.expires_ns is not None:
            allowed_ns: float = last.expires_ns - last.stamp_ns
        else:
            allowed_ns = 1e9 * (MAX_AGE if self._max_age is None else self._max_age)
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

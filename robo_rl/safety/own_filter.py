"""A filter of the user's own, which changes nothing but the action that it returns."""

import numpy as np

from robo_rl.core import Observation, SafetyFilter, Verdict

from .motion import Action


class OwnFilter:
    """A filter that receives copies, and whose action is copied.

    A filter that writes to an observation would otherwise change what later filters and recordings read, and one that
    returns the same array in every step would change the recorded actions of earlier steps.

    Args:
        inner: the user's filter.

    Attributes:
        inner: the user's filter.
    """

    def __init__(self, inner: SafetyFilter) -> None:
        self.inner = inner

    def reset(self) -> None:
        """Begin an episode."""
        self.inner.reset()

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return the action and the verdict of the user's filter."""
        copied = action.copy()
        result, verdict = self.inner({key: value.copy() for key, value in observation.items()}, copied, now_ns)
        if result is copied and np.array_equal(copied, action):
            return action, verdict
        return result.copy() if isinstance(result, np.ndarray) else result, verdict

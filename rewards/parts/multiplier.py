"""Multiplier of a constraint, controlled so that a quantity of recent episodes reaches its limit."""

import numpy as np

from robo_rl.core import State

from .arrays import take_over


class Multiplier:
    """PID controller of a multiplier (Stooke et al. 2020).

    After each episode, with the relative error e of the newest episodes, in [-1, 1], and the error before it:

        I <- max(0, I + integral * e)
        multiplier = max(0, proportional * e + I + derivative * max(0, e - e_before))

    With all gains at 0, the multiplier remains as it is at first.

    Args:
        gains: proportional, integral and derivative gain.
        initial: the multiplier, and I, before the first episode.
        episodes: number of the newest episodes that count.

    Attributes:
        mean: mean of the newest episodes, weighted by the numbers of their steps.
    """

    def __init__(self, gains: tuple[float, float, float], initial: float, episodes: int) -> None:
        self._gains = gains
        self._control = np.array([initial, 0.0, initial, 0.0])  # I, error, multiplier, mean
        self._episodes = np.zeros((episodes, 2))  # sums over their steps and numbers of steps, the newest last
        self._open = np.zeros(2)

    @property
    def value(self) -> float:
        """The multiplier."""
        return float(self._control[2])

    @property
    def error(self) -> float:
        """The relative error of the newest episodes."""
        return float(self._control[1])

    @property
    def mean(self) -> float:
        return float(self._control[3])

    def add(self, total: float, steps: int) -> None:
        """Count ``steps`` steps with the sum ``total`` of the limited quantity."""
        self._open += (total, steps)

    def end_episode(self, bound: float, *, least: bool = False, rising: float = 1.0) -> bool:
        """End an episode, and change the multiplier; return False if the episode had no step that counts.

        Args:
            bound: the limit, above 0.
            least: whether the limit is the smallest mean, not the largest.
            rising: share of positive and growing errors that counts.
        """
        if not self._open[1]:
            return False
        self._episodes[:-1] = self._episodes[1:]
        self._episodes[-1] = self._open
        self._open[:] = 0
        total, steps = self._episodes.sum(0)
        mean = total / steps
        error = float(np.clip((bound - mean if least else mean - bound) / bound, -1.0, 1.0))
        counted = rising * error if error > 0 else error
        proportional, integral, derivative = self._gains
        accumulated = max(0.0, self._control[0] + integral * counted)
        change = derivative * rising * max(0.0, error - self._control[1])
        self._control[:] = accumulated, error, max(0.0, proportional * counted + accumulated + change), mean
        return True

    def state(self) -> State:
        """Return the state for :meth:`load`."""
        return {"control": self._control, "episodes": self._episodes, "open": self._open}

    def load(self, state: State, name: str) -> None:
        """Restore ``state``; ``name`` is that of the module, for messages."""
        take_over(self.state(), state, name)

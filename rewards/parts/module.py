"""Bases of reward modules, with the defaults of the protocol."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, Comparisons, Experience, Metrics, State

Floats = NDArray[np.float32]


class Module:
    """Base of reward modules, with the answers of one that is fixed and judges single states.

    See :class:`robo_rl.core.RewardModule` for the meaning of each.
    """

    learned: bool = False
    whole_episodes: bool = False
    judges_state: bool = True

    def __init__(self) -> None:
        self.version = 0

    @property
    def waiting(self) -> bool:
        """Nobody is asked."""
        return False

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Nothing to prepare."""
        return {}

    def observe(self, batch: Batch) -> None:
        """Do nothing: nothing is remembered."""

    def update(self, experience: Experience) -> Metrics:
        """Nothing to learn."""
        return {}

    def discount(self) -> float | None:
        """Return None: the agent's own discount is right."""
        return None

    def comparisons(self) -> Comparisons | None:
        """Return None: nothing is compared."""
        return None

    def ready(self, first: Batch) -> bool:
        """Return True: nobody is asked."""
        return True

    def state(self) -> State:
        """Return nothing: nothing is remembered."""
        return {}

    def load(self, state: State) -> None:
        """Go on from ``state``: nothing is remembered."""


class FunctionModule(Module):
    """A fixed module that a function computes, row by row.

    Args:
        function: returns rewards (n,), finite, for rows of :class:`robo_rl.core.RewardModule`.
        judges_state: whether it reads ``next_observation/...`` alone.
    """

    def __init__(self, function: Callable[[Batch], NDArray[np.floating]], judges_state: bool = True) -> None:
        super().__init__()
        self._function = function
        self.judges_state = judges_state

    def __call__(self, batch: Batch) -> Floats:
        """Return rewards (n,) of the rows."""
        return np.asarray(self._function(batch), np.float32)

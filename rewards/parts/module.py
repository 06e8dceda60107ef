"""Base classes of reward modules, with defaults for the methods of the protocol."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, Comparisons, Experience, Metrics, State

Floats = NDArray[np.float32]


class Module:
    """Base class of reward modules. Its defaults suit a module that is fixed and judges single states.

    See :class:`robo_rl.core.RewardModule` for the meaning of each attribute and method.
    """

    learned: bool = False
    whole_episodes: bool = False
    judges_state: bool = True

    def __init__(self) -> None:
        self.version = 0

    @property
    def waiting(self) -> bool:
        """False, because the module requests no answers."""
        return False

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Do nothing, because there is nothing to prepare."""
        return {}

    def observe(self, batch: Batch) -> None:
        """Do nothing, because the module stores no rows."""

    def update(self, experience: Experience) -> Metrics:
        """Do nothing, because there is nothing to learn."""
        return {}

    def discount(self) -> float | None:
        """Return None: the agent keeps its own discount."""
        return None

    def comparisons(self) -> Comparisons | None:
        """Return None: the module collects no comparisons."""
        return None

    def ready(self, first: Batch) -> bool:
        """Return True, because the module requests no answers."""
        return True

    def state(self) -> State:
        """Return an empty state."""
        return {}

    def load(self, state: State) -> None:
        """Do nothing, because the state is empty."""


class FunctionModule(Module):
    """Fixed module whose rewards are computed by a function of rows.

    Args:
        function: returns finite rewards (n,) for rows as described in :class:`robo_rl.core.RewardModule`.
        judges_state: whether ``function`` reads only ``next_observation/...``.
    """

    def __init__(self, function: Callable[[Batch], NDArray[np.floating]], judges_state: bool = True) -> None:
        super().__init__()
        self._function = function
        self.judges_state = judges_state

    def __call__(self, batch: Batch) -> Floats:
        """Return rewards (n,) of the rows."""
        return np.asarray(self._function(batch), np.float32)

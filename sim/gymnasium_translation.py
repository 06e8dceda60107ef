"""Translation between the spaces of a Gymnasium environment and the observations and actions of this platform."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Observation

from .gymnasium_observations import ObservationReader


class SpaceTranslation:
    """A translation of observations and actions, see :class:`~robo_rl.core.SpaceTranslation`.

    Attributes:
        action_size: number of elements of an action.
    """

    def __init__(self, reader: ObservationReader, space: gymnasium.spaces.Box) -> None:
        self._reader, self._space = reader, space
        low, high = space.low.astype(np.float64) / 2, space.high.astype(np.float64) / 2
        self._centre, self._half_range = high + low, high - low  # halved first: the widest Box has an infinite range
        self.action_size = self._centre.size

    def observation(self, observation: Any) -> Observation:
        """Return an observation of the environment in this platform's format.

        Raises:
            ValueError: if a part of it is missing, or its shape or type differs from its space.
        """
        return self._reader.read(observation)

    def action(self, action: NDArray[np.float32]) -> NDArray[Any]:
        """Return ``action`` (A,) in [-1, 1], scaled linearly to the environment's Box and in its shape and type."""
        space = self._space
        scaled = self._centre + self._half_range * action.reshape(space.shape)
        clipped: NDArray[Any] = np.clip(scaled.astype(space.dtype), space.low, space.high)
        return clipped

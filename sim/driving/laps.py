"""The progress of a car along a demonstrated lap."""

import math

import numpy as np
from numpy.typing import NDArray

from .track import ClosedPath

Array = NDArray[np.float64]


class LapProgress:
    """The progress of a car along a lap whose corners are checkpoints, since an episode began.

    Args:
        lap: demonstrated lap.
        reach: distance along the lap from which a checkpoint counts as reached [m].
        control_rate: rate of the given positions [Hz].

    Attributes:
        travelled: distance that the car has travelled along the lap [m].
    """

    def __init__(self, lap: ClosedPath, reach: float, control_rate: float) -> None:
        self._lap = lap
        self._reach = reach
        self._control_rate = control_rate
        self.begin(lap.points[0])

    def begin(self, position: Array) -> None:
        """Begin an episode at ``position`` (2,) [m], at the nearest point of the lap."""
        self._along = self._lap.locate(position)
        self.travelled = self._lap_began = 0.0
        self._periods = self._laps = 0

    def follow(self, position: Array) -> float | None:
        """Continue to the ``position`` (2,) [m] of the next control period.

        Returns:
            The duration of the lap that was completed in this period [s], or None.
        """
        self._periods += 1
        along = self._lap.locate(position, near=self._along)
        distance = float(self._lap.ahead(along, self._along))
        self._along = along
        self.travelled += distance
        beyond = self.travelled - (self._laps + 1) * self._lap.length
        if beyond < 0:
            return None
        self._laps += 1
        now = (self._periods - beyond / distance) / self._control_rate
        seconds, self._lap_began = now - self._lap_began, now
        return seconds

    def checkpoints(self, count: int) -> Array:
        """Return the next ``count`` checkpoints (count, 2) in the world frame [m]."""
        spacing = self._lap.length / len(self._lap.points)
        first = math.ceil((self._along + self._reach) / spacing)
        points: Array = self._lap.points[(first + np.arange(count)) % len(self._lap.points)]
        return points

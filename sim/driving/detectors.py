"""Detectors of failures of a car: stuck, flipped, crashed."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from .config import DetectorConfig

Array = NDArray[np.float64]


class Detectors:
    """Detectors that read odometry and IMU once in each control step; see :class:`DetectorConfig`."""

    def __init__(self, config: DetectorConfig) -> None:
        self._config = config
        self._positions: deque[Array] = deque(maxlen=config.stuck_positions)

    def reset(self) -> None:
        """Begin an episode."""
        self._positions.clear()

    def stuck(self, position: Array) -> bool:
        """Add the car's position (2,) [m]; return whether the car has stayed near it for too long."""
        self._positions.append(position)
        if len(self._positions) < self._config.stuck_positions:
            return False
        away = np.array(self._positions) - position
        return bool(np.hypot(*away.T).max() < self._config.stuck_distance)

    def flipped(self, acceleration: Array) -> bool:
        """Return whether the measured ``acceleration`` (3,), mean of a control period, is that of a car on its back."""
        return bool(acceleration[2] < self._config.flip_acceleration)

    def crashed(self, impact: float) -> bool:
        """Return whether the largest horizontal acceleration of a control period [m/s^2] means a collision."""
        return impact > self._config.crash_acceleration

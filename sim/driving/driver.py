"""A scripted driver: pure pursuit of a path (Coulter 1992), at a speed that its bends allow."""

import math

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Observation

from .config import DriverConfig
from .simulation import CarSimulation
from .track import ClosedPath

BRAKING_SHARE = 0.5
"""Deceleration that the driver relies on, as a share of its lateral acceleration."""

PREVIEW = np.arange(0.0, 5.0, 0.25)
"""Distances ahead at which the driver checks for bends [m]."""

SPEED_GAIN = 0.6  # throttle per speed error [s/m]


class PurePursuit:
    """Steers along a circular arc to a point of the path ahead, and brakes in time for bends.

    Args:
        simulation: simulation of the car to drive.
        path: path to follow.
        config: speed limits and look-ahead distance.
    """

    def __init__(self, simulation: CarSimulation, path: ClosedPath, config: DriverConfig) -> None:
        self._simulation = simulation
        self._path = path
        self._config = config

    def reset(self) -> None:
        """Do nothing: the driver has no memory."""

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return the action (2,) for the car's current pose; ``observation`` is ignored."""
        config, car, data = self._config, self._simulation.config.car, self._simulation.data
        rotation = self._simulation.car.rotation(data)[:2, :2]
        rear = self._simulation.car.position(data) - rotation @ (car.wheelbase / 2, 0.0)
        s = self._path.locate(rear)
        x, y = rotation.T @ (self._path.at(s + config.look_ahead) - rear)
        angle = math.atan2(2 * car.wheelbase * y, x**2 + y**2)
        if x < 0:  # the car faces the wrong way: turn as tightly as possible
            angle = math.copysign(car.max_steering, y)
        speed = float((rotation.T @ self._simulation.car.velocity(data)[:2])[0])
        target_speed = self._speed(s)
        throttle = target_speed / car.top_speed + SPEED_GAIN * (target_speed - speed)
        action: NDArray[np.float32] = np.clip([angle / car.max_steering, throttle], -1, 1).astype(np.float32)
        return action

    def _speed(self, s: float) -> float:
        """Return the largest speed at ``s`` from which every bend ahead can still be taken [m/s]."""
        config = self._config
        bend = np.abs(self._path.curvature(s + PREVIEW))
        in_bend = config.lateral_acceleration / np.maximum(bend, 1e-3)
        now = np.sqrt(in_bend + 2 * BRAKING_SHARE * config.lateral_acceleration * PREVIEW)
        return min(config.speed, float(now.min()))

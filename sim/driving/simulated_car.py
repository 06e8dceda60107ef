"""A simulated car that runs continuously, as a robot does, and follows targets."""

from collections import deque

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import BaseTarget, require

from ..episode import SimulatedBackend
from ..ticking import TickingRobot
from .car import CRASH_FILTER
from .simulation import CarSimulation

Array = NDArray[np.float64]


class SimulatedCar(TickingRobot):
    """The robot's side of a :class:`~robo_rl.sim.driving.CarBackend`, whose physics and rewards it uses.

    Args:
        backend: simulated car on its track. Nothing else may step it in the meantime.
        simulation: simulation of that backend.

    Attributes:
        tick: shortest time step [s].
        max_steering: steering angle of a full action [rad].
        top_speed: speed at full throttle on a straight [m/s].

    Raises:
        ConfigError: if a control period is not a whole number of ticks.
    """

    def __init__(self, backend: SimulatedBackend, simulation: CarSimulation) -> None:
        config = simulation.config
        divides = config.ticks % CRASH_FILTER == 0
        require(divides, "a control period", f"a multiple of {CRASH_FILTER} steps of physics", config.ticks)
        super().__init__(backend)
        self._simulation = simulation
        # The physics steps over which accelerations are averaged before their peak is taken.
        self.tick = CRASH_FILTER / config.physics_rate
        self._ticks = config.ticks // CRASH_FILTER
        self.max_steering, self.top_speed = config.car.max_steering, config.car.top_speed
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Put the car at the start line as :meth:`CarBackend.reset` does."""
        backend = self._backend
        backend.reset(seed)
        self._rewards = dict.fromkeys(backend.spec.reward_terms, 0.0)
        self._failed = dict.fromkeys(("crashed", "stuck", "flipped"), False)
        self._readings: deque[tuple[Array, Array]] = deque(maxlen=self._ticks)
        self._impact, self._driven = 0.0, 0
        self.hold()

    def hold(self) -> None:
        """Release the throttle and straighten the wheels."""
        self._target = BaseTarget(0.0, 0.0)

    def command(self, target: BaseTarget) -> None:
        """Drive with ``target`` from now on."""
        self._target = target

    def advance(self, ticks: int) -> None:
        """Let ``ticks`` ticks pass.

        Raises:
            DriverError: if the simulation became unstable.
        """
        car, data = self._simulation.car, self._simulation.data
        for _ in range(ticks):
            car.drive(data, self._target.steering, self._target.throttle, CRASH_FILTER)
            self._readings.append((car.acceleration, car.rotation_rate))
            self._impact = max(self._impact, car.impact)
            self._driven += 1
            # As in a step, the IMU's readings are means over a control period.
            car.acceleration, car.rotation_rate = (
                np.mean(values, axis=0) for values in zip(*self._readings, strict=True)
            )
            if self._driven == self._ticks:
                car.impact = self._impact
                self._conclude()

    def _conclude(self) -> None:
        """Read the rewards of the control period that has passed. A failure lasts until the reset."""
        rewards = self._backend.conclude().rewards
        for name in self._failed:
            self._failed[name] |= rewards[name] > 0
        hardness = max(rewards["impact"], self._rewards["impact"]) if any(self._failed.values()) else 0.0
        self._rewards = {**rewards, **{name: float(failed) for name, failed in self._failed.items()}}
        self._rewards["impact"] = hardness
        self._impact, self._driven = 0.0, 0

    def measure(self) -> dict[str, Array]:
        """Return the readings of the sensors, in the car's frame.

        Readings: ``position`` (3,) [m] and ``quaternion`` (w, x, y, z) in the world frame, ``velocity`` (3,) [m/s],
        ``acceleration`` (3,) with gravity [m/s^2], ``rotation_rate`` (3,) [rad/s], ``drive`` (2,): steering angle [rad]
        and speed of the treads [m/s].
        """
        car, data = self._simulation.car, self._simulation.data
        rotation, quaternion = car.rotation(data), np.empty(4)
        mujoco.mju_mat2Quat(quaternion, rotation.ravel())
        return {
            "position": np.append(car.position(data), 0.0),
            "quaternion": quaternion,
            "velocity": rotation.T @ car.velocity(data),
            "acceleration": car.acceleration,
            "rotation_rate": car.rotation_rate,
            "drive": np.array([car.steering, car.wheel_speed(data)]),
        }

    def rewards(self) -> dict[str, float]:
        """Return the reward terms of the last control period, and the failures since the reset."""
        return dict(self._rewards)

"""The physics of a simulated car in the scene of a task."""

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import State

from ..episode import Actions, Initialise, Simulation
from ..world import restore_world, save_world
from .car import Car, add_car
from .config import DriveConfig
from .scene import make_scene

Array = NDArray[np.float64]

GRAVITY = 9.81

STATE_NAMES = (
    *(f"acceleration_{axis}" for axis in "xyz"),
    *(f"rotation_rate_{axis}" for axis in "xyz"),
    *("velocity_x", "velocity_y", "wheel_speed", "steering"),
    *(f"up_{axis}" for axis in "xyz"),
)
"""Elements of the observation ``state``, in the car's frame (x forward, y left): acceleration and rotation rate that
the IMU measures, means over the control period [g, rad/s]; odometry [m/s]; speed of the treads [m/s]; angle of the
middle front wheel [rad]; the direction opposite to gravity."""


class CarSimulation(Simulation):
    """A car among the objects of a task. Its actions are steering, positive to the left, and throttle.

    Args:
        config: configuration of the task.
        build: function that adds the objects of the task to a scene.

    Attributes:
        car: object that drives the car and reads its state.
    """

    config: DriveConfig
    remedy = "A higher physics_rate"

    def __init__(self, config: DriveConfig, build: Callable[[mujoco.MjSpec], None]) -> None:
        self.config = config
        scene = make_scene(config)
        build(scene)
        add_car(scene, config.car)
        self.model: Any = scene.compile()
        self.data: Any = mujoco.MjData(self.model)
        self.car = Car(self.model, config.car)
        self.state_names = STATE_NAMES
        extra = {key: getattr(config.car, key) for key in ("max_steering", "steering_rate", "top_speed")}
        self.actions = Actions(("steering", "throttle"), "steering_throttle", "base", extra)

    def place(self, initialise: Initialise, rng: np.random.Generator, noise: np.random.Generator) -> None:
        initialise(self.model, self.data, rng)

    def put(self, position: Array, heading: float, steering: float = 0.0) -> None:
        """Put the car at ``position`` (2,) [m] with ``heading`` and ``steering`` [rad], at rest on its wheels."""
        mujoco.mj_resetData(self.model, self.data)
        self.car.place(self.data, position, heading)
        self.car.steering = steering

    def execute(self, action: NDArray[np.float32]) -> None:
        self.car.drive(self.data, float(action[0]), float(action[1]), self.config.ticks)

    def measure_state(self) -> Array:
        car, data = self.car, self.data
        rotation = car.rotation(data)
        velocity = rotation.T @ car.velocity(data)
        odometry = (velocity[0], velocity[1], car.wheel_speed(data), car.steering)
        return np.concatenate([car.acceleration / GRAVITY, car.rotation_rate, odometry, rotation[2]])

    def pose(self) -> None:
        """Update positions of geoms, cameras and lights. The physics does not depend on them."""
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)

    def world(self) -> State:
        return save_world(self.model, self.data, car=self.car.state())

    def restore(self, world: State) -> None:
        self.car.load(restore_world(self.model, self.data, world, "car"))

"""A car in simulation as an ``EnvBackend``."""

from ..episode import SimulatedBackend, SimulatedTask
from .simulated_car import SimulatedCar
from .simulation import CarSimulation


class CarBackend(SimulatedBackend):
    """A simulated car before a task.

    An autonomous car begins an episode without a seed where it stands, or rolls; any other is placed every time.

    Args:
        task: world around the car, made from its configuration.
        simulation: of the car in that world.
    """

    simulation: CarSimulation

    def __init__(self, task: SimulatedTask, simulation: CarSimulation) -> None:
        super().__init__(task, simulation, in_place=task.config.autonomous)

    def as_robot(self) -> SimulatedCar:
        """Return this car as a robot that time moves on, instead of steps."""
        return SimulatedCar(self, self.simulation)

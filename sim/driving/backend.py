"""A car in simulation as an ``EnvBackend``."""

from ..episode import SimulatedBackend, SimulatedTask
from .simulated_car import SimulatedCar
from .simulation import CarSimulation


class CarBackend(SimulatedBackend):
    """A simulated car in a task.

    Without a seed, an autonomous car begins an episode where it is; any other car is placed at the start line.

    Args:
        task: world around the car, made from its configuration.
        simulation: simulation of the car in that world.
    """

    simulation: CarSimulation

    def __init__(self, task: SimulatedTask, simulation: CarSimulation) -> None:
        super().__init__(task, simulation, in_place=task.config.autonomous)

    def as_robot(self) -> SimulatedCar:
        """Return this car as a robot that runs continuously instead of in steps."""
        return SimulatedCar(self, self.simulation)

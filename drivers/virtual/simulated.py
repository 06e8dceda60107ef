"""Protocols of the simulated arms and vehicles that a virtual robot moves."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import FrameTransform

Array = NDArray[np.float64]


class Simulated(Protocol):
    """Simulated robot that a virtual robot moves."""

    cameras: tuple[str, ...]
    tick: float
    object_names: tuple[str, ...]

    def reset(self, seed: int) -> None: ...

    def advance(self, ticks: int) -> None: ...

    def hold(self) -> None: ...

    def command(self, target: Any) -> None: ...

    def measure(self) -> dict[str, Array]: ...

    def objects(self) -> Array: ...

    def rewards(self) -> dict[str, float]: ...

    def look(self) -> None: ...

    def image(self, camera: str) -> NDArray[np.uint8]: ...

    def close_cameras(self) -> None: ...

    def close(self) -> None: ...


class SimulatedArm(Simulated, Protocol):
    """Simulated arm; :class:`robo_rl.sim.simulated_robot.SimulatedRobot` is one."""

    joints: tuple[str, ...]
    fingers: tuple[str, ...]
    finger_strokes: NDArray[np.float64]
    takes: str

    def fixed_frames(self) -> list[FrameTransform]: ...

    def moving_frames(self, measured: dict[str, Array]) -> list[FrameTransform]: ...


class SimulatedVehicle(Simulated, Protocol):
    """Simulated car; :class:`robo_rl.sim.driving.simulated_car.SimulatedCar` is one."""

    max_steering: float
    top_speed: float

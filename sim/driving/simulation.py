"""Protocol of a simulated car: what its driver and its robot's side use of it."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import EnvSpec, Step

from .car import Car
from .config import DriveConfig

Array = NDArray[np.float64]


class CarSimulation(Protocol):
    """A simulated car on its track; :class:`~robo_rl.sim.driving.CarBackend` is one."""

    config: DriveConfig
    model: Any
    data: Any
    car: Car

    @property
    def spec(self) -> EnvSpec: ...

    def reset(self, seed: int | None = None) -> Step: ...

    def judge(self, before: Array) -> Step: ...

    def checkpoints_ahead(self) -> NDArray[np.float32]: ...

    def pose(self) -> None: ...

    def close(self) -> None: ...

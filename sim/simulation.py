"""Protocol of a simulated arm: what its experts, its model and its robot's side use of it."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robo_rl.core import EnvSpec, Step

from .config import TaskConfig
from .controller import Controller
from .observation import ArmState

Array = NDArray[np.float64]


class ArmSimulation(Protocol):
    """A simulated arm before its task; :class:`~robo_rl.sim.backend.ArmBackend` is one."""

    config: TaskConfig
    model: Any
    data: Any
    arm: ArmState
    controller: Controller

    @property
    def spec(self) -> EnvSpec: ...

    def reset(self, seed: int | None = None) -> Step: ...

    def advance(self, ticks: int, action: NDArray[np.float32] | None = None) -> None: ...

    def action_towards(
        self, position: ArrayLike, *, rotation: Array | None = None, gripper: float = -1.0
    ) -> NDArray[np.float32]: ...

    def measure_state(self) -> Array: ...

    def measure_objects(self) -> Array: ...

    def rewards(self) -> dict[str, float]: ...

    def close(self) -> None: ...

"""A small Gymnasium environment that other processes can import, with actions in a range of its own."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

LIMIT = 10
ARGUMENTS: list[dict[str, Any]] = []
"""Arguments of all environments that were made in this process."""


class PointWorld(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """A point on a line that is moved to the origin by actions from 0 to 4, of which 2 rests.

    Args:
        render_mode: as Gymnasium has it.
        start: largest distance of the start from the origin.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, start: float = 1.0) -> None:
        ARGUMENTS.append({"render_mode": render_mode, "start": start})
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(-10, 10, (1,), np.float32)
        self.action_space = gymnasium.spaces.Box(0, 4, (1,), np.float32)
        self._start, self._position, self._steps = start, np.zeros(1, np.float32), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._position = self.np_random.uniform(-self._start, self._start, 1).astype(np.float32)
        self._steps = 0
        return self._position, {}

    def step(self, action: NDArray[np.float32]) -> Any:
        assert self.action_space.contains(action), action
        self._position = (self._position + 0.1 * (action - 2)).clip(-10, 10).astype(np.float32)
        self._steps += 1
        is_success = bool(abs(self._position[0]) < 0.2)
        return self._position, float(is_success), False, self._steps >= LIMIT, {"is_success": is_success}

    def render(self) -> NDArray[np.uint8]:
        return np.zeros((48, 64, 3), np.uint8)

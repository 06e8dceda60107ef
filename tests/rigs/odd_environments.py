"""A Gymnasium environment of which each test changes what it needs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

ID = "test/Odd-v0"
LIMIT = 12


class Odd(gymnasium.Env[Any, Any]):
    """A point that counts its steps.

    Args:
        render_mode: as Gymnasium has it.
        space: of the observation.
        changes: functions of the environment by what they replace: ``observation``, ``reward``, ``terminated``,
            ``truncated``, ``info``, ``frame``; ``step`` is called before anything else is done, ``reset`` too.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, space: Any = None, **changes: Callable[["Odd"], Any]) -> None:
        self.render_mode = render_mode
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = space or spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.count = 0
        self.episode = 0
        self._changes = changes

    def get(self, name: str, default: Any) -> Any:
        return self._changes[name](self) if name in self._changes else default

    def observation(self) -> Any:
        return self.get("observation", np.array([self.count, self.episode, 0], np.float32))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.episode += 1
        self.count = 0
        self.get("reset", None)
        return self.observation(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        self.get("step", None)
        terminated, truncated = self.get("terminated", False), self.get("truncated", False)
        info = self.get("info", {})
        return self.observation(), self.get("reward", -1.0), terminated, truncated, info

    def render(self) -> Any:
        return self.get("frame", np.full((48, 64, 3), 60, np.uint8))


@contextmanager
def registered(limit: int | None = LIMIT, **changes: Any) -> Iterator[str]:
    """Offer :class:`Odd` with ``changes`` as an environment with a time limit; yields its id."""

    def make(render_mode: str | None = None) -> Odd:
        return Odd(render_mode, **changes)

    make.metadata = Odd.metadata  # type: ignore[attr-defined]
    gymnasium.register(ID, make, max_episode_steps=limit)
    try:
        yield ID
    finally:
        del gymnasium.registry[ID]

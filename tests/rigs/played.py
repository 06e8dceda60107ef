"""A live simulation of ``robo-rl play`` in a thread, whose commands and actions a test reads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from robo_rl.monitoring.playing import Playing
from robo_rl.sim import make_backend

SECONDS = 120.0


class Watched:
    """A simulator that notes the seeds of resets and the actions; pictures are black."""

    def __init__(self, **options: Any) -> None:
        self.inner = make_backend("reach", **options)
        self.spec, self.robot = self.inner.spec, self.inner.robot
        self.model, self.data = self.inner.model, self.inner.data
        self.seeds: list[int] = []
        self.actions: list[Any] = []

    def reset(self, seed: int) -> Any:
        self.seeds.append(seed)
        return self.inner.reset(seed)

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        return self.inner.step(action)

    def render(self) -> Any:
        return np.zeros((48, 64, 3), np.uint8)


class Resting:
    """A player that never moves, and so never succeeds."""

    def __init__(self, size: int) -> None:
        self.size = size

    def reset(self) -> None: ...

    def act(self, observation: Any) -> Any:
        return np.zeros(self.size, np.float32)


@contextmanager
def playing(expert: bool = False, **options: Any) -> Iterator[tuple[Playing, Watched]]:
    backend = Watched(**options)
    player = backend.inner.expert(0) if expert else Resting(backend.spec.action.shape[0])
    episodes = Playing(backend, player, seed=0)  # type: ignore[arg-type]
    ended = threading.Event()
    thread = threading.Thread(target=episodes.run, args=(ended.is_set,))
    thread.start()
    try:
        yield episodes, backend
    finally:
        ended.set()
        thread.join(SECONDS)
        assert not thread.is_alive()
        backend.inner.close()

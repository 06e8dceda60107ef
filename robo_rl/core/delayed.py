"""A backend whose observations arrive late, as those of a robot do."""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError, nearest
from .protocols import EnvBackend
from .seeding import generator
from .types import Observation, State, Step
from .wrapped_backend import WrappedWorld

_ROUNDING = 1e-9


class DelayedBackend(WrappedWorld):
    """An :class:`EnvBackend` that returns observations as they were some time ago, with a delay for each key.

    Delays are rounded up to whole control periods. An episode begins at rest: until a delay has passed, the first
    observation is returned. Safety filters are inside and see what is measured now; rewards, success, times and ends of
    episodes are not delayed.

    Args:
        backend: a simulated backend, with its safety filters.
        delay: delay by observation key [s]; other keys are not delayed.
        delay_range: largest further delay, drawn for each of these keys and each episode [s].

    Attributes:
        periods: delay of each key in the current episode [control periods].
        relabel: None, as what was achieved with a late observation is unknown; see :class:`~robo_rl.core.GoalTask`.

    Raises:
        ConfigError: if a key is not observed.
    """

    def __init__(self, backend: EnvBackend, delay: Mapping[str, float], delay_range: float = 0.0) -> None:
        super().__init__(backend)
        self.relabel = None
        for key in delay:
            if key not in backend.spec.observation:
                raise ConfigError(
                    f"task.observation.delay: {key!r} is not observed: {nearest(key, backend.spec.observation)}"
                )
        self._delay, self._range = dict(delay), delay_range
        self._draws = generator(0, "observation delay")
        self._late: dict[str, deque[NDArray[np.generic]]] = {}
        self.periods: dict[str, int] = {}

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode, whose delays follow from ``seed``; without one, they are drawn after those of the last."""
        if seed is not None:
            self._draws = generator(seed, "observation delay")
        return self._begin(self.inner.reset(seed))

    def step(self, action: NDArray[np.float32]) -> Step:
        return self._delayed(self.inner.step(action))

    def world(self) -> State | None:
        """Return the world of the other backend; None with a random delay, whose draws are not stored."""
        return None if self._range else super().world()

    def restore(self, world: State) -> Step:
        """Begin an episode in a ``world`` that was returned by :meth:`world`; see :meth:`_restore`."""
        return self._begin(self._restore(world))

    def _begin(self, step: Step) -> Step:
        rate = self.spec.control_rate
        seconds = {key: least + self._draws.uniform(0, self._range) for key, least in self._delay.items()}
        self.periods = {key: math.ceil(value * rate - _ROUNDING) for key, value in seconds.items()}
        first = step.observation
        self._late = {key: deque(first[key].copy() for _ in range(count)) for key, count in self.periods.items()}
        return self._delayed(step)

    def _delayed(self, step: Step) -> Step:
        observation: Observation = dict(step.observation)
        for key, waiting in self._late.items():
            waiting.append(observation[key].copy())  # backends may reuse arrays
            observation[key] = waiting.popleft()
        return replace(step, observation=observation)

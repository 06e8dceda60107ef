"""A backend whose observations hold what was observed and done before."""

from collections import deque
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError
from .protocols import EnvBackend
from .specs import ArraySpec, EnvSpec
from .types import State, Step
from .wrapped_backend import WrappedWorld

HISTORY = "history"
"""Observation key of the previous states and actions."""


class HistoryBackend(WrappedWorld):
    """An :class:`EnvBackend` that also observes previous states and executed actions, under the key ``history``.

    A policy without memory cannot tell a search that has just begun from one that goes on, and repeats the same action
    while it sees the same state. The history is one vector: for each of ``length`` moments, oldest first, the state
    minus the newest state, and the action that was executed then. Moments are ``stride`` control periods apart. Before
    the beginning of the episode the first state counts, and actions are zero.

    Args:
        backend: backend that observes ``state``.
        length: number of moments.
        stride: control periods from one moment to the next.

    Attributes:
        inner: that backend.

    Raises:
        ConfigError: if there is no ``state``, or the backend has a history already.
    """

    def __init__(self, backend: EnvBackend, length: int, stride: int = 1) -> None:
        spec = backend.spec
        if "state" not in spec.observation or len(spec.observation["state"].shape) != 1:
            raise ConfigError(
                f"task.observation.history={length} needs the observation 'state', a vector; task {spec.task!r} has "
                f"{', '.join(sorted(spec.observation))}"
            )
        if HISTORY in spec.observation:
            raise ConfigError(f"the observation of task {spec.task!r} has the key {HISTORY!r} already")
        super().__init__(backend)
        self._length, self._stride = length, stride
        self._moments: deque[NDArray[np.float32]] = deque(maxlen=length * stride)
        state, action = spec.observation["state"], spec.action
        names = tuple(
            f"{name}_{-stride * moment}"
            for moment in range(length, 0, -1)
            for name in (*_names(state, "state_"), *(f"action_{name}" for name in _names(action, "")))
        )
        history = ArraySpec((len(names),), names=names)
        self._spec = replace(spec, observation={**spec.observation, HISTORY: history})

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode without history."""
        return self._begin(self.inner.reset(seed))

    def restore(self, world: State) -> Step:
        """Begin an episode as :meth:`WrappedWorld._restore` does, without history."""
        return self._begin(self._restore(world))

    def step(self, action: NDArray[np.float32]) -> Step:
        step = self.inner.step(action)
        executed = action if step.executed_action is None else step.executed_action
        self._moments.append(np.concatenate([self._state, executed]).astype(np.float32))
        return self._observe(step)

    def _begin(self, step: Step) -> Step:
        still = np.zeros(self.spec.action.shape, np.float32)
        moment = np.concatenate([step.observation["state"], still]).astype(np.float32)
        self._moments.extend([moment] * (self._length * self._stride))
        return self._observe(step)

    def _observe(self, step: Step) -> Step:
        self._state = step.observation["state"].copy()  # backends may reuse arrays
        moments = np.stack(list(self._moments)[:: self._stride])
        moments[:, : len(self._state)] -= self._state
        return replace(step, observation={**step.observation, HISTORY: moments.ravel()})


def _names(spec: ArraySpec, beginning: str) -> tuple[str, ...]:
    return spec.names or tuple(f"{beginning}{place}" for place in range(spec.shape[0]))

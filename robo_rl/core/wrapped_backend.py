"""Base classes of backends around another backend."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .agent_protocols import ScriptedExpert
from .clock import Clock
from .errors import CheckpointError
from .protocols import EnvBackend, GoalTask, PersistentWorld, PosableWorld, SimulatedState
from .robot import RobotDescription
from .specs import EnvSpec
from .types import Batch, State, Step


class WrappedBackend:
    """The part of an :class:`EnvBackend` that another one inside it does.

    Subclasses define ``reset`` and ``step``, and ``spec`` if they change it.

    Attributes:
        inner: that backend.
    """

    def __init__(self, backend: EnvBackend) -> None:
        self.inner = backend

    @property
    def spec(self) -> EnvSpec:
        return self.inner.spec

    @property
    def clock(self) -> Clock:
        return self.inner.clock

    @property
    def robot(self) -> RobotDescription | None:
        return self.inner.robot

    def render(self) -> NDArray[np.uint8]:
        return self.inner.render()

    def expert(self, seed: int) -> ScriptedExpert:
        return self.inner.expert(seed)

    def stop(self, reason: str) -> None:
        self.inner.stop(reason)

    def close(self) -> None:
        self.inner.close()


class WrappedWorld(WrappedBackend):
    """A wrapped backend whose world, and the goals of its steps, are those of the other backend.

    Attributes:
        relabel: see :class:`~robo_rl.core.GoalTask`; None if the other backend has no goals.
    """

    relabel: Callable[[Batch], Batch] | None

    def __init__(self, backend: EnvBackend) -> None:
        super().__init__(backend)
        self.relabel = backend.relabel if isinstance(backend, GoalTask) else None

    def world(self) -> State | None:
        """Return all that the next episode depends on if it begins where the robot is; None if that is unknown."""
        return self.inner.world() if isinstance(self.inner, PersistentWorld) else None

    def _restore(self, world: State) -> Step:
        """Begin an episode of the other backend in a ``world`` that was returned by :meth:`world`.

        Raises:
            CheckpointError: if the world of the other backend cannot be restored.
        """
        if not isinstance(self.inner, PersistentWorld):
            raise CheckpointError(f"the world of task {self.spec.task!r} cannot be restored: resume on its simulator")
        return self.inner.restore(world)


def simulated_state(backend: EnvBackend) -> tuple[Any, Any] | None:
    """Return model and state of the MuJoCo simulator that ``backend`` is or contains; None for a robot."""
    inner = _innermost(backend)
    return (inner.model, inner.data) if isinstance(inner, SimulatedState) else None


def posable_world(backend: EnvBackend) -> PosableWorld | None:
    """Return the simulator that ``backend`` is or contains if it shows other states of its model, too; None if not."""
    inner = _innermost(backend)
    return inner if isinstance(inner, PosableWorld) else None


def _innermost(backend: EnvBackend) -> object:
    inner: object = backend
    while isinstance(inner, WrappedBackend):
        inner = inner.inner
    return inner

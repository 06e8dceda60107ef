"""The base class of backends that change the observations of another backend."""

import numpy as np
from numpy.typing import NDArray

from .agent_protocols import ScriptedExpert
from .clock import Clock
from .protocols import EnvBackend
from .robot import RobotDescription


class WrappedBackend:
    """The part of an :class:`EnvBackend` that another one inside it does.

    Subclasses define ``spec``, ``reset`` and ``step``. The robot, its safety filters and its experts are inside and
    unaffected.

    Args:
        backend: the other backend.

    Attributes:
        inner: that backend.
    """

    def __init__(self, backend: EnvBackend) -> None:
        self.inner = backend

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

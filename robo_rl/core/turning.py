"""Observations of joints without limits by sine and cosine, and a backend that observes so."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .protocols import EnvBackend
from .robot import RobotDescription
from .specs import ArraySpec, EnvSpec
from .types import Observation, State, Step
from .wrapped_backend import WrappedWorld


class TurningState:
    """The conversion of ``state``, in which sine and cosine replace the positions of endless joints.

    Args:
        spec: spec of observations with positions.
        robot: description of the robot; None: it has no such joints.

    Attributes:
        spec: spec of converted observations.
    """

    def __init__(self, spec: EnvSpec, robot: RobotDescription | None) -> None:
        self.spec = spec
        self._places: list[int] = []
        self._sines: list[int] = []
        if not (turning := turning_positions(spec, robot)):
            return
        names: list[str] = []
        for place, name in enumerate(spec.observation["state"].names):
            joint = name.removesuffix("_position")
            parts = [f"{joint}_sin", f"{joint}_cos"] if name in turning else [name]
            self._sines += [len(names)] if name in turning else []
            self._places += [place] * len(parts)
            names += parts
        state = ArraySpec((len(names),), names=tuple(names))
        self.spec = replace(spec, observation={**spec.observation, "state": state})

    def convert(self, observation: Observation) -> Observation:
        """Return an observation with sine and cosine instead of the positions of endless joints."""
        if not self._sines:
            return observation
        state = observation["state"][self._places]
        for sine in self._sines:
            angle = float(state[sine])
            state[sine], state[sine + 1] = np.sin(angle), np.cos(angle)
        return {**observation, "state": state}


class TurningBackend(WrappedWorld):
    """An :class:`EnvBackend` that observes the positions of endless joints by their sine and cosine.

    A position in [-pi, pi) jumps by a whole turn where the joint itself moves on, so that networks and normalisation
    see two distant places. In ``state``, ``NAME_position`` of each endless joint is replaced by ``NAME_sin`` and
    ``NAME_cos``. Safety filters are inside and use positions.
    """

    def __init__(self, backend: EnvBackend) -> None:
        super().__init__(backend)
        self._state = TurningState(backend.spec, backend.robot)

    @property
    def spec(self) -> EnvSpec:
        return self._state.spec

    def reset(self, seed: int | None = None) -> Step:
        return self._converted(self.inner.reset(seed))

    def step(self, action: NDArray[np.float32]) -> Step:
        return self._converted(self.inner.step(action))

    def restore(self, world: State) -> Step:
        """Begin an episode in a ``world`` that was returned by :meth:`world`; see :meth:`_restore`."""
        return self._converted(self._restore(world))

    def _converted(self, step: Step) -> Step:
        return replace(step, observation=self._state.convert(step.observation))


def turning_positions(spec: EnvSpec, robot: RobotDescription | None) -> frozenset[str]:
    """Return the names of the elements of ``state`` that are positions of endless joints of the robot."""
    if robot is None or "state" not in spec.observation:
        return frozenset()
    positions = {f"{name}_position" for name, turns in zip(robot.joints, robot.endless, strict=True) if turns}
    return frozenset(positions & {*spec.observation["state"].names})

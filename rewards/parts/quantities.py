"""Quantities of steps by name, with units: what was observed, the terms of the task, and the acceleration."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, EnvSpec, Observation, ObservationSignals

ACCELERATION = "acceleration"
"""Change of the end effector's velocity in a step, over the control period [m/s2]."""


class Quantities:
    """The quantities of the steps of an environment, each measured after the step.

    Attributes:
        units: unit of each quantity by name, or None.

    Args:
        spec: spec of the environment.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self._spec = spec
        self._signals = ObservationSignals(spec)
        self._velocity = self._signals.places("speed")
        self.units: dict[str, str | None] = dict.fromkeys(spec.reward_terms) | self._signals.units
        self._accelerates = len(self._velocity) > 1 and ACCELERATION not in self.units
        if self._accelerates:
            self.units[ACCELERATION] = "m/s2"

    def reads(self, names: Collection[str]) -> frozenset[str]:
        """Return the names of the elements and reward terms that the quantities ``names`` are computed from."""
        read = set[str]()
        for name in names:
            places = self._velocity if self._is_acceleration(name) else self._signals.places(name)
            read |= {self._spec.observation[key].names[place] for key, place in places} or {name}
        return frozenset(read)

    def values(self, name: str, rows: Batch) -> NDArray[np.float64]:
        """Return a quantity (n,) of rows as described in :class:`~robo_rl.core.RewardModule`."""
        if self._is_acceleration(name):
            velocities = (self._observed(rows, prefix) for prefix in ("next_observation/", "observation/"))
            after, before = (
                np.stack([observed[key][..., place] for key, place in self._velocity]).astype(np.float64)
                for observed in velocities
            )
            return np.asarray(np.sqrt(((after - before) ** 2).sum(axis=0)) * self._spec.control_rate)
        if name in self._signals.units:
            return self._signals.values(name, self._observed(rows, "next_observation/"))
        return np.asarray(rows[f"term/{name}"], np.float64)

    def _is_acceleration(self, name: str) -> bool:
        return self._accelerates and name == ACCELERATION

    def _observed(self, rows: Batch, prefix: str) -> Observation:
        return {key.removeprefix(prefix): value for key, value in rows.items() if key.startswith(prefix)}

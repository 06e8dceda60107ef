"""Named signals of observations and reward terms, with units, for use in specifications."""

import re

import numpy as np
from numpy.typing import NDArray

from .specs import EnvSpec
from .types import Observation

_UNITS = (
    (r"end_effector_[xyz]", "m"),
    (r"(end_effector_v|velocity_)[xyz]", "m/s"),
    (r"end_effector_w[xyz]", "rad/s"),
    (r"wrist_force_[xyz]", "N"),
    (r"wrist_torque_[xyz]", "Nm"),
    (r".+_position", "rad"),
    (r".+_velocity", "rad/s"),
)
"""Units of elements of ``state`` by patterns of their names; other elements have none."""

_MAGNITUDES = {
    "force": tuple(f"wrist_force_{axis}" for axis in "xyz"),
    "torque": tuple(f"wrist_torque_{axis}" for axis in "xyz"),
    "speed": tuple(f"end_effector_v{axis}" for axis in "xyz"),
}
"""Signals that are norms of vectors: force [N] and torque [Nm] at the wrist, speed of the end effector [m/s]."""


class ObservationSignals:
    """The signals of an environment: every element of its observations by name, ``force``, ``torque`` and ``speed``.

    Attributes:
        units: unit of each signal by name, or None.
    """

    def __init__(self, spec: EnvSpec) -> None:
        elements: dict[str, tuple[str, int]] = {}
        self.units: dict[str, str | None] = {}
        for key, array in spec.observation.items():
            for place, name in enumerate(array.names):
                elements[name] = (key, place)
                units = (unit for pattern, unit in _UNITS if key == "state" and re.fullmatch(pattern, name))
                self.units[name] = next(units, None)
        self._places: dict[str, tuple[tuple[str, int], ...]] = {name: (place,) for name, place in elements.items()}
        for name, parts in _MAGNITUDES.items():
            if name not in elements and all(part in elements for part in parts):
                self._places[name] = tuple(elements[part] for part in parts)
                self.units[name] = self.units[parts[0]]

    def places(self, name: str) -> tuple[tuple[str, int], ...]:
        """Return observation key and index of each element that a signal is computed from; none for other names."""
        return self._places.get(name, ())

    def values(self, name: str, observations: Observation) -> NDArray[np.float64]:
        """Return a signal (...,) of observations whose arrays are (..., elements)."""
        places = self._places[name]
        if len(places) == 1:
            ((key, place),) = places
            return np.asarray(observations[key][..., place], np.float64)
        parts = np.stack([observations[key][..., place] for key, place in places]).astype(np.float64)
        return np.asarray(np.sqrt((parts**2).sum(axis=0)))

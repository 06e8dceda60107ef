"""The parameters of an arm's dynamics that a fit may change, and their scales."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import ArmConfig, ArmDynamics
from .prediction import Predictor

Array = NDArray[np.float64]

TORQUE_SHARE = 0.02
"""Torque that matters, as a share of a joint's torque limit."""
LONGEST_DELAY = 0.3
"""Longest delay of commands that is looked for [s]."""
FACTOR = 20.0
"""Largest change of a stiffness, a damping or an armature: up to this multiple, and down to its inverse."""
UNITS = {
    "delay": "s",
    "stiffness": "Nm/rad",
    "damping": "Nms/rad",
    "friction": "Nm",
    "viscosity": "Nms/rad",
    "armature": "kg m^2",
    "torque_offset": "Nm",
    "payload": "kg",
    "gravity": "",
}


@dataclass(frozen=True)
class Parameter:
    """A number that is fitted.

    Attributes:
        key: field of :class:`~robo_rl.sim.config.ArmDynamics`.
        joint: number of its joint; None if it is the whole arm's.
        scale: change that matters, in its unit.
        low: smallest value.
        high: largest value.
    """

    key: str
    joint: int | None
    scale: float
    low: float
    high: float

    def name(self, joints: Sequence[str]) -> str:
        """Return its name; ``joints``: names of the joints."""
        return self.key if self.joint is None else f"{self.key}.{joints[self.joint]}"

    def of(self, dynamics: ArmDynamics) -> float:
        """Return its value in ``dynamics``."""
        value = getattr(dynamics, self.key)
        return float(value if self.joint is None else value[self.joint])


def make_parameters(predictor: Predictor, arm: ArmConfig) -> list[Parameter]:
    """Return all parameters of an arm."""
    nominal, inf = predictor.nominal, float("inf")
    torque = TORQUE_SHARE * np.array(arm.torque_limits)
    viscosity = torque / np.array(arm.velocity_limits)
    inertia = predictor.inertia()
    parameters = [
        Parameter("delay", None, 0.01, 0.0, LONGEST_DELAY),
        Parameter("payload", None, 0.1 * predictor.mass(), 0.0, inf),
        Parameter("gravity", None, 0.2, -1.0, 1.0),
    ]
    for joint in range(predictor.joints):
        for key in ("stiffness", "damping", "armature"):
            value = getattr(nominal, key)[joint] or inertia[joint]
            parameters.append(Parameter(key, joint, value, value / FACTOR, value * FACTOR))
        parameters += [
            Parameter("friction", joint, max(nominal.friction[joint], torque[joint]), 0.0, inf),
            Parameter("viscosity", joint, max(nominal.viscosity[joint], viscosity[joint]), 0.0, inf),
            Parameter("torque_offset", joint, torque[joint], -inf, inf),
        ]
    return parameters


def values_of(parameters: Sequence[Parameter], dynamics: ArmDynamics) -> Array:
    """Return the values (m,) that parameters have in ``dynamics``."""
    return np.array([parameter.of(dynamics) for parameter in parameters])


def with_values(dynamics: ArmDynamics, parameters: Sequence[Parameter], values: Array) -> ArmDynamics:
    """Return ``dynamics`` with new values (m,) of parameters."""
    joints = {key: list(value) for key, value in dynamics.by_joint().items()}
    whole: dict[str, Any] = {}
    for parameter, value in zip(parameters, values.tolist(), strict=True):
        if parameter.joint is None:
            whole[parameter.key] = value
        else:
            joints[parameter.key][parameter.joint] = value
    whole |= {key: tuple(value) for key, value in joints.items()}
    return replace(dynamics, **whole)

"""System identification of an arm: excitation, prediction, and the fit of ``arm.dynamics`` to what was recorded."""

from .identification import ArmIdentification

__all__ = ["ArmIdentification"]

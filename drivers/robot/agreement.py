"""The difference between where a robot measures its end effector and where the task's model has it."""

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArmPose, SpecError

from .rotation import from_vector, to_vector

Array = NDArray[np.float64]

TURN_TOLERANCE = 0.1
"""Between the end effector's rotation as measured and as modelled [rad]: calibration, never another tool frame."""
JUMP = 0.02
"""Largest change of the distance between them from one control period to the next [m]."""
TURN_JUMP = 0.05
"""The same of the rotation [rad]."""
CORRECTION_SPEED = 0.05
"""Speed with which the correction follows what is measured [m/s]."""
CORRECTION_TURN = 0.1
"""The same of its rotation [rad/s]."""
SKEW = 0.1
"""Longest time that joints and pose are taken to have been measured apart [s]."""


class MismatchError(SpecError):
    """Two measurements of one arm contradict each other."""


class PoseCorrection:
    """Carries poses of the model over to a robot that differs from it by calibration.

    The correction follows the measured difference slowly, so that no measurement commands a jump. A difference that
    jumps or grows too large is refused. What the arm moves while joints and pose are measured is allowed for.

    Args:
        tolerance: largest distance between the measured and the modelled position [m].
        skew: longest time between the measurement of joints and of the pose [s].
        period: between two updates [s].
    """

    def __init__(self, tolerance: float, skew: float, period: float) -> None:
        self._tolerance, self._skew, self._period = tolerance, min(skew, SKEW), period
        self._shift, self._turn = np.zeros(3), np.eye(3)
        self._measured = self._shift, self._turn

    def begin(self, modelled: ArmPose, measured: ArmPose) -> None:
        """Take over the difference as it is."""
        self._measured = self._shift, self._turn = _difference(modelled, measured)

    def update(self, modelled: ArmPose, measured: ArmPose, speeds: Array) -> None:
        """Follow the difference between two poses of the same instant.

        Args:
            modelled: of the measured joints.
            measured: by itself.
            speeds: linear and angular speed of the end effector (2,) [m/s, rad/s].

        Raises:
            MismatchError: if it jumped, or is larger than calibration explains.
        """
        shift, turn = _difference(modelled, measured)
        moved, turned = speeds * self._skew
        away, angle = float(np.linalg.norm(shift)), _angle(turn)
        if away > self._tolerance + moved or angle > TURN_TOLERANCE + turned:
            raise MismatchError(
                f"the end effector is measured {away:.3g} m and {angle:.3f} rad from where the measured joints have "
                f"it; {self._tolerance + moved:.3f} m (robot.pose_tolerance) and {TURN_TOLERANCE + turned:.3f} rad "
                "are allowed"
            )
        away, angle = float(np.linalg.norm(shift - self._measured[0])), _angle(turn @ self._measured[1].T)
        if away > JUMP + moved or angle > TURN_JUMP + turned:
            raise MismatchError(
                f"the measured pose of the end effector jumped by {away:.3f} m and {angle:.3f} rad within a control "
                f"period, which the measured joints did not; {JUMP + moved:.3f} m and {TURN_JUMP + turned:.3f} rad are "
                "allowed"
            )
        self._measured = shift, turn
        self._shift = self._shift + _shortened(shift - self._shift, CORRECTION_SPEED * self._period)
        rest = _shortened(to_vector(turn @ self._turn.T), CORRECTION_TURN * self._period)
        self._turn = from_vector(rest) @ self._turn

    def apply(self, pose: ArmPose) -> ArmPose:
        """Return where the robot has its end effector when the model has it at ``pose``."""
        return ArmPose(pose.position + self._shift, pose.rotation @ self._turn)


def _difference(modelled: ArmPose, measured: ArmPose) -> tuple[Array, Array]:
    """Return the way to the measured position (3,) in the base frame, and the rotation (3, 3) in the tool frame."""
    return measured.position - modelled.position, modelled.rotation.T @ measured.rotation


def _angle(rotation: Array) -> float:
    return float(np.linalg.norm(to_vector(rotation)))


def _shortened(vector: Array, length: float) -> Array:
    """Return ``vector`` (3,) with at most that length."""
    shortened: Array = vector / max(1.0, float(np.linalg.norm(vector)) / length)
    return shortened

"""Correction of the difference between the measured end effector and that of the task's model."""

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArmPose, SpecError, matrix_of_vector, vector_of_matrix

Array = NDArray[np.float64]

TURN_TOLERANCE = 0.1
"""Largest angle between the two end effectors that calibration explains [rad]. A different tool frame exceeds it."""
JUMP = 0.02
"""Largest change of the distance between the two end effectors from one control period to the next [m]."""
TURN_JUMP = 0.05
"""Largest change of the rotation between the two end effectors from one control period to the next [rad]."""
CORRECTION_SPEED = 0.05
"""Speed at which the correction follows the measured distance [m/s]."""
CORRECTION_TURN = 0.1
"""Speed at which the correction follows the measured rotation [rad/s]."""
SKEW = 0.1
"""Upper limit of the assumed time between the measurements of joints and pose [s]."""


class MismatchError(SpecError):
    """Contradiction between two measurements of one arm."""


class PoseCorrection:
    """Mapping of the model's poses to a robot that differs from the model by its calibration.

    The correction follows the measured difference slowly, so that no single measurement makes the arm jump. A
    difference that jumps or grows too large is an error. The limits allow for the arm's motion between the measurements
    of joints and pose.

    Args:
        tolerance: largest distance between the measured and the modelled position [m].
        skew: longest time between the measurement of joints and of the pose [s].
        period: time between two updates [s].
    """

    def __init__(self, tolerance: float, skew: float, period: float) -> None:
        self._tolerance, self._skew, self._period = tolerance, min(skew, SKEW), period
        self._shift, self._turn = np.zeros(3), np.eye(3)
        self._measured = self._shift, self._turn

    def begin(self, modelled: ArmPose, measured: ArmPose) -> None:
        """Start from the current difference."""
        self._measured = self._shift, self._turn = _difference(modelled, measured)

    def update(self, modelled: ArmPose, measured: ArmPose, speeds: Array) -> None:
        """Follow the difference between two poses of the same instant.

        Args:
            modelled: pose computed from the measured joints.
            measured: pose as the robot measures it.
            speeds: linear and angular speed of the end effector (2,) [m/s, rad/s].

        Raises:
            MismatchError: if the difference jumps, or is larger than calibration explains.
        """
        shift, turn = _difference(modelled, measured)
        moved, turned = speeds * self._skew
        gap, angle = float(np.linalg.norm(shift)), _angle(turn)
        if gap > self._tolerance + moved or angle > TURN_TOLERANCE + turned:
            raise MismatchError(
                f"the end effector is measured {gap:.3g} m and {angle:.3f} rad from where the measured joints have "
                f"it; {self._tolerance + moved:.3f} m (robot.pose_tolerance) and {TURN_TOLERANCE + turned:.3f} rad "
                "are allowed"
            )
        gap, angle = float(np.linalg.norm(shift - self._measured[0])), _angle(turn @ self._measured[1].T)
        if gap > JUMP + moved or angle > TURN_JUMP + turned:
            raise MismatchError(
                f"the measured pose of the end effector jumped by {gap:.3f} m and {angle:.3f} rad within a control "
                f"period, which the measured joints did not; {JUMP + moved:.3f} m and {TURN_JUMP + turned:.3f} rad are "
                "allowed"
            )
        self._measured = shift, turn
        self._shift = self._shift + _shortened(shift - self._shift, CORRECTION_SPEED * self._period)
        step = _shortened(vector_of_matrix(turn @ self._turn.T), CORRECTION_TURN * self._period)
        self._turn = matrix_of_vector(step) @ self._turn

    def apply(self, pose: ArmPose) -> ArmPose:
        """Return the robot's end-effector pose that corresponds to ``pose`` of the model."""
        return ArmPose(pose.position + self._shift, pose.rotation @ self._turn)


def _difference(modelled: ArmPose, measured: ArmPose) -> tuple[Array, Array]:
    """Return translation (3,) in the base frame and rotation (3, 3) in the tool frame between the two poses."""
    return measured.position - modelled.position, modelled.rotation.T @ measured.rotation


def _angle(rotation: Array) -> float:
    return float(np.linalg.norm(vector_of_matrix(rotation)))


def _shortened(vector: Array, length: float) -> Array:
    """Return ``vector`` (3,), shortened to ``length`` if it is longer."""
    shortened: Array = vector / max(1.0, float(np.linalg.norm(vector)) / length)
    return shortened

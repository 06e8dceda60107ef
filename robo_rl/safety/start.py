"""Check of where an episode may begin: inside the end effector's box, and clear of the arm and of keep-out volumes."""

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Observation

from .barrier import Clearances
from .motion import ArmReader

Array = NDArray[np.float64]

OUTSIDE = 0.05
"""Largest distance of the end effector outside its box when an episode begins [m]: a compliant arm slips out a bit."""
OVERLAP = 0.001
"""Largest depth to which the arm may overlap with itself or a keep-out volume, as models are not exact [m]."""


class StartCheck:
    """Checks whether the robot may move from the first observation of an episode.

    Filters keep an arm from leaving its box and from coming nearer to what it must not touch. They let the arm move on
    its way back, so if an episode begins far outside the box, or inside an obstacle, they guarantee nothing.

    Args:
        reader: reads the arm's part of observations.
        box: corners (3,) of the end effector's box in the base frame [m]; None if there is no box.
        clearances: clearances of the arm; None if they are not checked.
    """

    def __init__(self, reader: ArmReader, box: tuple[Array, Array] | None, clearances: Clearances | None) -> None:
        self._reader, self._box, self._clearances = reader, box, clearances

    def __call__(self, observation: Observation) -> str | None:
        """Return the reason why an episode must not begin at ``observation``; None if it may."""
        advice = "bring it back (by its reset, or by hand)"
        if self._box is not None:
            low, high = self._box
            position = self._reader.position(observation)
            out = float(np.maximum(np.maximum(low - position, position - high), 0.0).max())
            if out > OUTSIDE:
                where = ", ".join(f"{value:.3f}" for value in position)
                return (
                    f"the episode would begin with the end effector at ({where}) m, {out:.2f} m outside its box "
                    f"{np.round(low, 3).tolist()} to {np.round(high, 3).tolist()}: {advice}, or widen safety.workspace"
                )
        if self._clearances is not None:
            distance = self._clearances.smallest(self._reader.joint_positions(observation))
            if distance < -OVERLAP:
                return (
                    f"the episode would begin with the arm {-100 * distance:.1f} cm inside itself or a keep-out "
                    f"volume: {advice}, or correct task.keep_out and safety.barrier.keep_out"
                )
        return None

"""Where an episode may begin: inside the end effector's box, and clear of the arm itself and of keep-out volumes."""

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Observation

from .barrier import Clearances
from .motion import ArmReader

Array = NDArray[np.float64]

OUTSIDE = 0.05
"""How far out of its box the end effector may be where an episode begins [m]: a compliant arm slips out a little."""
OVERLAP = 0.001
"""How deep the arm may be in itself or a keep-out volume: models are not exact [m]."""


class StartCheck:
    """Says of the first observation of an episode why the robot must not move from there.

    Filters keep an arm from leaving its box and from coming nearer to what it may not touch. They let it move on its
    way back, so where it begins far outside, or inside an obstacle, they promise nothing.

    Args:
        reader: of the observation.
        box: corners (3,) of the end effector's box in the base frame [m]; None: it is not kept in one.
        clearances: of the arm; None: they are not watched.
    """

    def __init__(self, reader: ArmReader, box: tuple[Array, Array] | None, clearances: Clearances | None) -> None:
        self._reader, self._box, self._clearances = reader, box, clearances

    def __call__(self, observation: Observation) -> str | None:
        """Return why an episode must not begin at ``observation``; None: it may."""
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

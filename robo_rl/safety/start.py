"""Check of where an episode may begin: inside the end effector's box, clear of obstacles, and without a load."""

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
        contact: force [N] and torque [Nm] at the wrist from which every action is slowed; None if they are not limited.
    """

    def __init__(
        self,
        reader: ArmReader,
        box: tuple[Array, Array] | None,
        clearances: Clearances | None,
        contact: tuple[float, float] | None = None,
    ) -> None:
        self._reader, self._box, self._clearances, self._contact = reader, box, clearances, contact

    def __call__(self, observation: Observation, checks_load: bool = True) -> str | None:
        """Return the reason why an episode must not begin at ``observation``; None if it may.

        Args:
            observation: first observation of the episode.
            checks_load: whether a large load at the wrist is a reason.
        """
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
        return self._loaded(observation, *self._contact) if self._contact is not None and checks_load else None

    def _loaded(self, observation: Observation, most_force: float, most_torque: float) -> str | None:
        """Return why the wrist's load at ``observation`` is too large; None if it is not."""
        force, torque = self._reader.contact(observation)
        if force <= most_force and torque <= most_torque:
            return None
        return (
            f"the wrist measures {force:.0f} N and {torque:.1f} Nm at rest, but safety.contact slows every action from "
            f"{most_force:g} N or {most_torque:g} Nm. If the arm touches nothing, this is the sensor's bias: tare the "
            "sensor, or let the driver subtract it (robot.tare.seconds=0.5); if it does touch something, bring it back"
        )

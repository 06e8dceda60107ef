"""Estimation of joint velocities from recent positions, for robots that do not measure them."""

from array import array
from collections import deque
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import shortest

Array = NDArray[np.float64]

FEWEST = 3
"""Smallest number of positions for a velocity."""
PAUSE = 0.2
"""Longest time between two positions of one motion [s], or the window if longer; beyond it the estimate restarts."""


class VelocityEstimator:
    """Estimator of joint velocities: the slope of the least-squares line through the recent positions.

    A slope is the velocity in the middle of its time span. The estimate is therefore late by half of the window, or by
    one period of the source if the window holds fewer than three messages. Positions that wrap around after a whole
    turn are unwrapped.

    Args:
        joints: names of the joints in messages.
        window: time span of the positions [s].
    """

    def __init__(self, joints: Collection[str], window: float) -> None:
        self._joints, self._window = sorted(joints), window
        self._turns = np.full(len(self._joints), True)
        self._rows: deque[tuple[float, Array]] = deque()

    def fill(self, message: Any, now_ns: int) -> bool:
        """Set the velocities in a JointState, replacing any that it has; return whether they are known yet.

        A message that lacks a joint or a position is left unchanged.

        Args:
            message: JointState with joints in any order; the velocities of all other joints become NaN.
            now_ns: monotonic time of its arrival [ns].
        """
        names, positions = list(message.name), np.asarray(message.position, np.float64)
        if len(positions) != len(names) or not set(self._joints) <= set(names):
            return True  # the decoder reports the error
        places = [names.index(name) for name in self._joints]
        if not np.isfinite(positions[places]).all():
            return True
        self._take(now_ns * 1e-9, positions[places])
        times = np.array([time for time, _ in self._rows]) - self._rows[-1][0]
        if len(times) < FEWEST or -times[0] < self._window / 2:
            return False
        times -= times.mean()
        velocities = np.full(len(names), np.nan)
        velocities[places] = times @ np.array([row for _, row in self._rows]) / (times @ times)
        message.velocity = array("d", velocities.tolist())
        return True

    def _take(self, now: float, positions: Array) -> None:
        """Add positions (n,), and remove those that are too old."""
        rows = self._rows
        if rows and now - rows[-1][0] > max(PAUSE, self._window):
            rows.clear()
        if rows:
            last = rows[-1][1]
            positions = last + shortest(positions - last, self._turns)
        rows.append((now, positions))
        while len(rows) > FEWEST and now - rows[0][0] > self._window:
            rows.popleft()

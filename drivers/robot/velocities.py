"""Joint velocities of robots that do not measure them, from the positions of the last moments."""

from array import array
from collections import deque
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import shortest

Array = NDArray[np.float64]

FEWEST = 3
"""Positions that a velocity needs."""
PAUSE = 0.2
"""Longest time between two positions of one motion [s], or the window if that is longer; then it begins again."""


class VelocityEstimator:
    """Slopes of the lines that fit the positions of the last moments best (least squares).

    A slope is the velocity in the middle of the time that it spans: it is late by half of the window, or by one period
    of the source where the window holds fewer than three messages. Positions that begin again after a whole turn are
    followed.

    Args:
        joints: whose velocities are wanted, by their names in messages.
        window: the time that is looked back at [s].
    """

    def __init__(self, joints: Collection[str], window: float) -> None:
        self._joints, self._window = sorted(joints), window
        self._turns = np.full(len(self._joints), True)
        self._rows: deque[tuple[float, Array]] = deque()

    def fill(self, message: Any, now_ns: int) -> bool:
        """Set the velocities in a JointState, whatever it says of them; return whether they are known yet.

        A message that lacks a joint, or a position, is left as it is.

        Args:
            message: whose joints are in any order; those that nobody wants get no number.
            now_ns: monotonic time of its arrival.
        """
        names, positions = list(message.name), np.asarray(message.position, np.float64)
        if len(positions) != len(names) or not set(self._joints) <= set(names):
            return True  # its reader says what is wrong
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
        """Add positions (n,), and forget those that are too old."""
        rows = self._rows
        if rows and now - rows[-1][0] > max(PAUSE, self._window):
            rows.clear()
        if rows:
            last = rows[-1][1]
            positions = last + shortest(positions - last, self._turns)
        rows.append((now, positions))
        while len(rows) > FEWEST and now - rows[0][0] > self._window:
            rows.popleft()

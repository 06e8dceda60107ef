"""Estimation of joint velocities from recent positions, for robots that do not measure them."""

from array import array
from collections import deque
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import shortest

from .assembly import Stamp

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

    Positions are timed by the stamps of their messages, or by their arrival if there are no stamps. Delayed messages
    arrive together, so that arrival times would suggest a multiple of the velocity. Stamps come from the clock of
    another machine, so only their differences are used; if that clock is set, the estimate restarts.

    Args:
        joints: names of the joints in messages.
        window: time span of the positions [s].
    """

    def __init__(self, joints: Collection[str], window: float) -> None:
        self._joints, self._window = sorted(joints), window
        self._turns = np.full(len(self._joints), True)
        self._rows: deque[tuple[int, Array]] = deque()
        self._is_stamped = False

    def fill(self, message: Any, now_ns: int, stamp: Stamp | None = None) -> bool:
        """Set the velocities in a JointState, replacing any that it has; return whether they are known yet.

        A message that lacks a joint or a position is left unchanged. For positions older than the last ones the result
        is false.

        Args:
            message: JointState with joints in any order; the velocities of all other joints become NaN.
            now_ns: monotonic time of its arrival [ns].
            stamp: stamp of its header; None and (0, 0) mean no stamp.
        """
        names, positions = list(message.name), np.asarray(message.position, np.float64)
        if len(positions) != len(names) or not set(self._joints) <= set(names):
            return True  # the decoder reports the error
        places = [names.index(name) for name in self._joints]
        if not np.isfinite(positions[places]).all():
            return True
        measured_ns = 0 if stamp is None else stamp[0] * 10**9 + stamp[1]
        if self._is_stamped != (measured_ns != 0):
            self._rows.clear()
            self._is_stamped = measured_ns != 0
        if not self._take(measured_ns or now_ns, positions[places]):
            return False
        times = 1e-9 * np.array([time_ns - self._rows[-1][0] for time_ns, _ in self._rows])
        if len(times) < FEWEST or -times[0] < self._window / 2:
            return False
        times -= times.mean()
        velocities = np.full(len(names), np.nan)
        velocities[places] = times @ np.array([row for _, row in self._rows]) / (times @ times)
        message.velocity = array("d", velocities.tolist())
        return True

    def _take(self, now_ns: int, positions: Array) -> bool:
        """Add positions (n,) and remove those that are too old; return whether the new ones are in order.

        Messages of two publishers may arrive out of order. Positions with the time of the last ones are ignored.
        """
        rows = self._rows
        if rows:
            passed = 1e-9 * (now_ns - rows[-1][0])
            if -self._window / 2 < passed <= 0:
                return passed == 0
            if not 0 < passed <= max(PAUSE, self._window):
                rows.clear()
        if rows:
            last = rows[-1][1]
            positions = last + shortest(positions - last, self._turns)
        rows.append((now_ns, positions))
        while len(rows) > FEWEST and 1e-9 * (now_ns - rows[0][0]) > self._window:
            rows.popleft()
        return True

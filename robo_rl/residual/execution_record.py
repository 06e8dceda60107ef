"""A record of executed chunks, from which their report is made."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import EnvSpec, ExecutionReport


class ExecutionRecord:
    """Latencies, held steps and jerk of the actions of a policy, episode by episode.

    Args:
        spec: spec of the environment, which says which elements of actions are motion.
    """

    def __init__(self, spec: EnvSpec) -> None:
        names = spec.action.names or ("",) * spec.action.shape[0]
        self._moves = np.array(["gripper" not in name for name in names])
        self._order = 3 if spec.commands_positions else 2
        self._recent: deque[NDArray[np.float32]] = deque(maxlen=self._order + 1)
        self.restart()

    def restart(self) -> None:
        """Begin a new record."""
        self._latencies: list[float] = []
        self._steps = self._held = 0
        self._seams: list[float] = []
        self._chunks: list[float] = []
        self.begin_episode()

    def begin_episode(self) -> None:
        """Begin an episode, whose first action follows from no other."""
        self._recent.clear()
        self._remaining = 0

    def add_decision(self, seconds: float, chunk: NDArray[np.float32]) -> None:
        """Record a chunk (h, A) and the time that its decision took [s]."""
        self._latencies.append(seconds)
        if len(chunk) > self._order:
            self._chunks.append(float(self._jerk(chunk).max()))

    def add_seam(self, blended: int) -> None:
        """Record that the next action is the first of another chunk, or holds still, after ``blended`` steps blend."""
        if self._recent:
            self._seams.append(0.0)
            self._remaining = blended + self._order

    def add_action(self, action: NDArray[np.float32], *, held: bool) -> None:
        """Record an action (A,), and whether it holds the robot still."""
        self._steps += 1
        self._held += held
        self._recent.append(action)
        if self._remaining > 0 and len(self._recent) > self._order:
            self._seams[-1] = max(self._seams[-1], float(self._jerk(np.stack(self._recent)).max()))
        self._remaining -= 1

    def report(self) -> ExecutionReport:
        """Return the report on all that was recorded."""
        median, late = np.percentile(self._latencies, (50, 99)).tolist() if self._latencies else (None, None)
        return ExecutionReport(
            decisions=len(self._latencies),
            latency_median=median,
            latency_percentile_99=late,
            steps=self._steps,
            held_steps=self._held,
            seams=len(self._seams),
            jerk_at_seams=float(np.mean(self._seams)) if self._seams else None,
            jerk_in_chunks=float(np.mean(self._chunks)) if self._chunks else None,
        )

    def _jerk(self, actions: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the jerk (n - order,) of consecutive actions (n, A)."""
        change = np.diff(actions[:, self._moves].astype(np.float64), self._order, axis=0)
        return np.asarray(np.linalg.norm(change, axis=1))

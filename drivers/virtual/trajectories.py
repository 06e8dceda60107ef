"""Joint trajectory controller of the virtual robot: a topic, and the action FollowJointTrajectory."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArmTarget, SpecError

from ..ros2 import Node, ServerGoal

Array = NDArray[np.float64]

TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
ACTION = "control_msgs/action/FollowJointTrajectory"
NAME = "joint_trajectory_controller"
SUCCESSFUL, INVALID_GOAL = 0, -1
"""Error codes of the action's result."""
PERIOD_SECONDS = 0.01
"""Time between two targets along a trajectory [s]."""
GAIN = 5.0
"""Gain from the distance to the trajectory to the speed that is added to the trajectory's own [1/s]."""


class TrajectoryController:
    """Controller that follows trajectories of joint positions, straight from point to point, from the current posture.

    A newer trajectory replaces the current one. Tolerances and trajectories that begin later are rejected. Velocities
    of points are ignored.

    Args:
        node: node of the virtual robot.
        joints: joints of the arm.
        real_time_factor: ratio of the robot's time to real time.
        is_active: returns whether the controller is active.
        positions: returns the joint positions (n,).
        obey: called with each target in the node's thread.
        hold: makes the arm hold its posture.
    """

    def __init__(
        self,
        node: Node,
        joints: Sequence[str],
        real_time_factor: float,
        is_active: Callable[[], bool],
        positions: Callable[[], Array],
        obey: Callable[[ArmTarget], None],
        hold: Callable[[], None],
    ) -> None:
        self._node, self._joints, self._factor = node, list(joints), real_time_factor
        self._is_active, self._positions, self._obey, self._hold = is_active, positions, obey, hold
        self._path: tuple[Array, Array] | None = None  # times (p,) [s] and positions (p, n) of the current trajectory
        self._started_at = 0.0
        self._lock = threading.Lock()
        self._number = 0  # number of the newest trajectory
        self._abort_reason = ""  # why the earlier trajectories were aborted
        node.create_action_server(ACTION, f"{NAME}/follow_joint_trajectory", self._execute)
        node.create_timer(PERIOD_SECONDS, self._turn)

    def end(self, reason: str) -> None:
        """Abort the current trajectory, if any. No target of it is executed afterwards."""
        with self._lock:
            self._number += 1
            self._path, self._abort_reason = None, reason

    def take(self, message: Any) -> None:
        """Begin a trajectory from the topic, in the node's thread. Invalid trajectories are ignored and reported."""
        try:
            self._begin(message)
        except SpecError as error:
            print(f"{NAME} takes no trajectory: {error}", flush=True)

    def _begin(self, trajectory: Any) -> int:
        """Begin a trajectory and return its number.

        Raises:
            SpecError: if it cannot be executed.
        """
        if not self._is_active():
            raise SpecError("the controller is not active")
        if sorted(trajectory.joint_names) != sorted(self._joints):
            raise SpecError(f"expected the joints {', '.join(self._joints)}, got {', '.join(trajectory.joint_names)}")
        if trajectory.header.stamp.sec or trajectory.header.stamp.nanosec:
            raise SpecError("expected a stamp of 0, which begins at once")
        order = [trajectory.joint_names.index(joint) for joint in self._joints]
        points = trajectory.points
        if not points or any(len(point.positions) != len(order) for point in points):
            raise SpecError("expected one point or more, with a position of each joint")
        times = np.array([point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec for point in points])
        path = np.array([np.asarray(point.positions)[order] for point in points])
        if times[0] > 0:  # planners begin with the current posture at time 0; others omit it
            times, path = np.insert(times, 0, 0.0), np.vstack([self._positions(), path])
        if not np.isfinite(path).all() or times[0] < 0 or (np.diff(times) <= 0).any():
            raise SpecError("expected finite positions, and times from 0 on that increase")
        with self._lock:  # goals run in separate threads
            self._number += 1
            self._started_at = time.monotonic()
            self._path, self._abort_reason = (times, path), "a newer trajectory has taken its place"
            return self._number

    def _turn(self) -> None:
        """Send the next target to the arm; called in the node's thread."""
        with self._lock:
            path = self._path
            if path is None:
                return
            if not self._is_active():
                self._path = None
                return
            elapsed = self._elapsed()
            desired, velocity = _interpolate(path, elapsed)
            if elapsed >= path[0][-1]:
                self._obey(ArmTarget(joints=desired))
                self._path = None
                return
            self._obey(ArmTarget(velocities=velocity + GAIN * (desired - self._positions())))

    def _elapsed(self) -> float:
        """Return the robot's time since the start of the trajectory [s]."""
        return (time.monotonic() - self._started_at) * self._factor

    def _execute(self, goal: ServerGoal) -> Any:
        """Execute a goal; called in the goal's thread."""
        request = goal.request
        try:
            if any(request.path_tolerance) or any(request.goal_tolerance):
                raise SpecError("expected no tolerances")
            number = self._begin(request.trajectory)
        except SpecError as error:
            return self._finish(goal, str(error))
        while self._number == number and (path := self._path) is not None:
            self._publish_feedback(goal, path)
            if goal.cancel_requested:
                self._path = None
                self._hold()
                goal.canceled()
                return self._node.types.make(f"{ACTION}_Result", error_code=SUCCESSFUL, error_string="canceled")
            time.sleep(PERIOD_SECONDS)
        if self._number != number:
            return self._finish(goal, self._abort_reason)
        return self._finish(goal, "" if self._is_active() else "the controller was deactivated")

    def _publish_feedback(self, goal: ServerGoal, path: tuple[Array, Array]) -> None:
        actual = self._positions()
        desired, _ = _interpolate(path, self._elapsed())
        make = self._node.types.make
        points = {"desired": desired, "actual": actual, "error": desired - actual}
        goal.publish_feedback(
            make(
                f"{ACTION}_Feedback",
                header={"stamp": self._node.now()},
                joint_names=self._joints,
                **{name: {"positions": positions} for name, positions in points.items()},
            )
        )

    def _finish(self, goal: ServerGoal, refusal: str) -> Any:
        """Return the result of a goal: finished, or rejected or aborted with the reason ``refusal``."""
        if refusal:
            goal.abort()
        code = INVALID_GOAL if refusal else SUCCESSFUL
        return self._node.types.make(f"{ACTION}_Result", error_code=code, error_string=refusal)


def _interpolate(path: tuple[Array, Array], elapsed: float) -> tuple[Array, Array]:
    """Return positions and velocities of a path at a time after its start [s]."""
    times, positions = path
    if elapsed >= times[-1]:
        return positions[-1], np.zeros_like(positions[-1])
    last = int(np.searchsorted(times, elapsed, side="right")) - 1
    velocity = (positions[last + 1] - positions[last]) / (times[last + 1] - times[last])
    return positions[last] + velocity * (elapsed - times[last]), velocity

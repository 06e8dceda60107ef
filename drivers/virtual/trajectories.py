"""The virtual robot's joint_trajectory_controller: trajectories of a topic, and the action FollowJointTrajectory."""

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
"""Codes of the action's result."""
PERIOD_SECONDS = 0.01
"""Between two targets on the way."""
GAIN = 5.0
"""Speed per distance from where the trajectory is, beside the speed that it has itself [1/s]."""


class TrajectoryController:
    """Goes along trajectories of joint positions, straight from point to point, from where the arm is.

    A newer trajectory takes the place of the one before. Tolerances and trajectories that begin later are refused;
    velocities of points are not looked at.

    Args:
        node: of the virtual robot.
        joints: of the arm.
        real_time_factor: how fast its time passes.
        is_active: whether the controller is.
        positions: returns where the joints are (n,).
        obey: given each target, in the node's thread.
        hold: has the arm stay where it is.
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
        self._path: tuple[Array, Array] | None = None  # times (p,) [s] and positions (p, n) of what it is on
        self._begun_at = 0.0
        self._lock = threading.Lock()
        self._number = 0  # of the newest trajectory
        self._given_up = ""  # why those before it were
        node.create_action_server(ACTION, f"{NAME}/follow_joint_trajectory", self._execute)
        node.create_timer(PERIOD_SECONDS, self._turn)

    def end(self, reason: str) -> None:
        """Give up the trajectory on its way, if any. No target of it is obeyed after that."""
        with self._lock:
            self._number += 1
            self._path, self._given_up = None, reason

    def take(self, message: Any) -> None:
        """Begin a trajectory that came on the topic, in the node's thread. What is no trajectory is not obeyed."""
        try:
            self._begin(message)
        except SpecError as error:
            print(f"{NAME} takes no trajectory: {error}", flush=True)

    def _begin(self, trajectory: Any) -> int:
        """Begin a trajectory, and return its number.

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
        if times[0] > 0:  # planners begin with where the arm is, at 0; others leave that out
            times, path = np.insert(times, 0, 0.0), np.vstack([self._positions(), path])
        if not np.isfinite(path).all() or times[0] < 0 or (np.diff(times) <= 0).any():
            raise SpecError("expected finite positions, and times from 0 on that increase")
        with self._lock:  # goals have threads of their own
            self._number += 1
            self._begun_at = time.monotonic()
            self._path, self._given_up = (times, path), "a newer trajectory has taken its place"
            return self._number

    def _turn(self) -> None:
        """Called in the node's thread: send the arm a step further."""
        with self._lock:
            going = self._path
            if going is None:
                return
            if not self._is_active():
                self._path = None
                return
            now = self._elapsed()
            wanted, velocity = _at(going, now)
            if now >= going[0][-1]:
                self._obey(ArmTarget(joints=wanted))
                self._path = None
                return
            self._obey(ArmTarget(velocities=velocity + GAIN * (wanted - self._positions())))

    def _elapsed(self) -> float:
        """Return the robot's time since the trajectory began [s]."""
        return (time.monotonic() - self._begun_at) * self._factor

    def _execute(self, goal: ServerGoal) -> Any:
        """Called in a thread of the goal's."""
        request = goal.request
        try:
            if any(request.path_tolerance) or any(request.goal_tolerance):
                raise SpecError("expected no tolerances")
            number = self._begin(request.trajectory)
        except SpecError as error:
            return self._ended(goal, str(error))
        while self._number == number and (going := self._path) is not None:
            self._publish_feedback(goal, going)
            if goal.cancel_requested:
                self._path = None
                self._hold()
                goal.canceled()
                return self._node.types.make(f"{ACTION}_Result", error_code=SUCCESSFUL, error_string="canceled")
            time.sleep(PERIOD_SECONDS)
        if self._number != number:
            return self._ended(goal, self._given_up)
        return self._ended(goal, "" if self._is_active() else "the controller was deactivated")

    def _publish_feedback(self, goal: ServerGoal, going: tuple[Array, Array]) -> None:
        actual = self._positions()
        desired, _ = _at(going, self._elapsed())
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

    def _ended(self, goal: ServerGoal, refusal: str) -> Any:
        """Return the result of a goal that was refused or given up for a reason, or done."""
        if refusal:
            goal.abort()
        code = INVALID_GOAL if refusal else SUCCESSFUL
        return self._node.types.make(f"{ACTION}_Result", error_code=code, error_string=refusal)


def _at(path: tuple[Array, Array], now: float) -> tuple[Array, Array]:
    """Return positions and velocities of a path at a time after its begin [s]."""
    times, positions = path
    if now >= times[-1]:
        return positions[-1], np.zeros_like(positions[-1])
    last = int(np.searchsorted(times, now, side="right")) - 1
    velocity = (positions[last + 1] - positions[last]) / (times[last + 1] - times[last])
    return positions[last] + velocity * (now - times[last]), velocity

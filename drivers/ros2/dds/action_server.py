"""Action servers: three services, and topics of feedback and status."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from cyclonedds.core import DDSException

from robo_rl.core import ConfigError

from ..api import GoalStatus, Message
from ..qos import ACTION_STATUS
from .action_client import CANCEL_TYPE, FEEDBACK_QOS
from .endpoint_factory import EndpointFactory
from .services import DdsService
from .waiter import Waiter

log = logging.getLogger(__name__)

RESULT_SECONDS = 60.0
"""Time for which the result of an ended goal can be requested [s]."""

_ENDED = (GoalStatus.SUCCEEDED, GoalStatus.CANCELED, GoalStatus.ABORTED)
_UNKNOWN_GOAL, _GOAL_TERMINATED = 2, 3
"""Return codes of action_msgs/srv/CancelGoal."""

_STATUS_TYPE = "action_msgs/msg/GoalStatusArray"


class DdsServerGoal:
    """Goal of an action server; see :class:`.api.ServerGoal`."""

    def __init__(self, server: "DdsActionServer", identity: bytes, request: Message, stamp: Message) -> None:
        self.identity = identity
        self.request = request
        self.stamp = stamp
        self.status = GoalStatus.ACCEPTED
        self.ended_at = 0.0
        self.result: Message = None
        self.requests: list[Callable[[Message], None]] = []
        self._server = server

    @property
    def cancel_requested(self) -> bool:
        return self.status == GoalStatus.CANCELING

    def publish_feedback(self, feedback: Message) -> None:
        self._server.publish_feedback(self, feedback)

    def succeed(self) -> None:
        self._server.change(self, GoalStatus.SUCCEEDED)

    def abort(self) -> None:
        self._server.change(self, GoalStatus.ABORTED)

    def canceled(self) -> None:
        """Mark the goal as cancelled by the client.

        Raises:
            ConfigError: if the client did not cancel it.
        """
        if self.status != GoalStatus.CANCELING:
            raise ConfigError("canceled() without cancel_requested: a goal that the client did not cancel is aborted")
        self._server.change(self, GoalStatus.CANCELED)


class DdsActionServer:
    """Server of an action; see :meth:`Node.create_action_server`.

    Args:
        endpoints: creates writers and readers.
        action_type: ``package/action/Name``.
        action: fully qualified name.
        callbacks: receives requests.
        execute: executes a goal.
        accept: returns whether a goal is accepted.
        now: returns the time of acceptance.
    """

    def __init__(
        self,
        endpoints: EndpointFactory,
        action_type: str,
        action: str,
        callbacks: Waiter,
        execute: Callable[[Any], Message],
        accept: Callable[[Message], bool] | None,
        now: Callable[[], Message],
    ) -> None:
        self.action = action
        self._type = action_type
        self._types = endpoints.types
        self._execute = execute
        self._accept = accept
        self._now = now
        self._lock = threading.RLock()
        self._goals: dict[bytes, DdsServerGoal] = {}
        base = f"{action}/_action"
        feedback_type = f"{action_type}_FeedbackMessage"
        self._feedback = endpoints.writer(feedback_type, f"rt{base}/feedback", FEEDBACK_QOS)
        self._status = endpoints.writer(_STATUS_TYPE, f"rt{base}/status", ACTION_STATUS)
        self._get = DdsService(
            endpoints, f"{action_type}_GetResult", f"{base}/get_result", callbacks, self._receive_result_request
        )
        self._cancel = DdsService(endpoints, CANCEL_TYPE, f"{base}/cancel_goal", callbacks, self._receive_cancellation)
        self._send = DdsService(
            endpoints, f"{action_type}_SendGoal", f"{base}/send_goal", callbacks, self._receive_goal
        )

    def _receive_goal(self, request: Any, answer: Callable[[Message], None]) -> None:
        identity = bytes(request.goal_id.uuid)
        goal = DdsServerGoal(self, identity, request.goal, self._now())
        accepted = identity not in self._goals
        if accepted and self._accept is not None:
            try:
                accepted = self._accept(request.goal)
            except Exception:  # the callback failed, but the client needs an answer
                log.exception("%s: accept failed; the goal is rejected", self.action)
                accepted = False
        if accepted:
            with self._lock:
                self._forget_old()
                self._goals[identity] = goal
        answer(self._types.make(f"{self._type}_SendGoal_Response", accepted=accepted, stamp=goal.stamp))
        if accepted:
            self._publish_status()
            threading.Thread(target=self._run, args=(goal,), name=f"goal of {self.action}", daemon=True).start()

    def _run(self, goal: DdsServerGoal) -> None:
        with self._lock:
            if goal.status == GoalStatus.ACCEPTED:
                goal.status = GoalStatus.EXECUTING
        try:
            self._publish_status()
            goal.result = self._execute(goal)
            status = goal.status if goal.status in _ENDED else GoalStatus.SUCCEEDED
        except Exception:  # the callback failed, but the goal needs a status
            log.exception("%s: execution failed; the goal is aborted", self.action)
            status = GoalStatus.ABORTED
        try:
            self._end(goal, status)
        except DDSException:
            log.warning("%s: the node was closed while a goal was executed", self.action)

    def change(self, goal: DdsServerGoal, status: GoalStatus) -> None:
        """Set the final status of a goal. The result follows when its execution returns."""
        with self._lock:
            if goal.status in _ENDED:
                raise ConfigError(f"the goal has ended already: {goal.status.name.lower()}")
            goal.status = status

    def _end(self, goal: DdsServerGoal, status: GoalStatus) -> None:
        with self._lock:
            goal.status = status
            if goal.result is None:
                goal.result = self._types.make(f"{self._type}_Result")
            goal.ended_at = time.monotonic()
            requests, goal.requests = goal.requests, []
        self._publish_status()
        for answer in requests:
            answer(self._result_of(goal))

    def _result_of(self, goal: DdsServerGoal) -> Message:
        return self._types.make(f"{self._type}_GetResult_Response", status=int(goal.status), result=goal.result)

    def _receive_result_request(self, request: Any, answer: Callable[[Message], None]) -> None:
        with self._lock:
            goal = self._goals.get(bytes(request.goal_id.uuid))
            if goal is not None and not goal.ended_at:
                goal.requests.append(answer)
                return
        answer(self._types.make(f"{self._type}_GetResult_Response") if goal is None else self._result_of(goal))

    def _receive_cancellation(self, request: Any, answer: Callable[[Message], None]) -> None:
        identity, stamp = bytes(request.goal_info.goal_id.uuid), _nanoseconds(request.goal_info.stamp)
        with self._lock:
            named = identity.strip(b"\0")
            matching = [
                goal
                for goal in self._goals.values()
                if goal.identity == identity
                or (stamp and _nanoseconds(goal.stamp) <= stamp)
                or (not stamp and not named)
            ]
            cancelling = [goal for goal in matching if goal.status in (GoalStatus.ACCEPTED, GoalStatus.EXECUTING)]
            for goal in cancelling:
                goal.status = GoalStatus.CANCELING
        code = 0  # for several goals, it is not an error if none can be cancelled
        if named and not stamp and not cancelling:
            code = _GOAL_TERMINATED if matching else _UNKNOWN_GOAL
        infos = [{"goal_id": {"uuid": goal.identity}, "stamp": goal.stamp} for goal in cancelling]
        answer(self._types.make(f"{CANCEL_TYPE}_Response", return_code=code, goals_canceling=infos))
        self._publish_status()

    def publish_feedback(self, goal: DdsServerGoal, feedback: Message) -> None:
        """Publish feedback on a goal."""
        name = f"{self._type}_FeedbackMessage"
        message = self._types.make(name, goal_id={"uuid": goal.identity}, feedback=feedback)
        self._feedback.write(self._types.serialize(name, message))

    def _publish_status(self) -> None:
        with self._lock:
            entries = [
                {"goal_info": {"goal_id": {"uuid": goal.identity}, "stamp": goal.stamp}, "status": int(goal.status)}
                for goal in self._goals.values()
            ]
            self._status.write(self._types.serialize(_STATUS_TYPE, self._types.make(_STATUS_TYPE, status_list=entries)))

    def _forget_old(self) -> None:
        now = time.monotonic()
        for identity, goal in list(self._goals.items()):
            if goal.ended_at and now - goal.ended_at > RESULT_SECONDS:
                del self._goals[identity]

    def close(self) -> None:
        """Cancel all running goals."""
        with self._lock:
            for goal in self._goals.values():
                if goal.status in (GoalStatus.ACCEPTED, GoalStatus.EXECUTING):
                    goal.status = GoalStatus.CANCELING


def _nanoseconds(stamp: Any) -> int:
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)

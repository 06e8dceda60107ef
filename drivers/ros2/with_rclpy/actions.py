"""Actions on rclpy."""

import time
from collections.abc import Callable
from typing import Any

from rclpy.action import ActionClient, ActionServer, CancelResponse, GoalResponse

from robo_rl.core import DriverError

from ..api import GoalStatus, Message, ServerGoal
from .endpoints import Guard, wait_for


class RclpyGoal:
    """As of :class:`Goal`."""

    def __init__(self, handle: Any, action: str) -> None:
        self._handle = handle
        self._action = action
        self._result = handle.get_result_async()

    @property
    def status(self) -> GoalStatus:
        return GoalStatus(self._result.result().status) if self._result.done() else GoalStatus.ACCEPTED

    def result(self, timeout_s: float) -> tuple[GoalStatus, Message]:
        if not wait_for(self._result, timeout_s):
            raise DriverError(f"{self._action}: the goal did not end within {timeout_s} s")
        response = self._result.result()
        return GoalStatus(response.status), response.result

    def cancel(self, timeout_s: float = 5.0) -> bool:
        future = self._handle.cancel_goal_async()
        if not wait_for(future, timeout_s):
            raise DriverError(f"{self._action}: the server did not answer within {timeout_s} s")
        return bool(future.result().goals_canceling)


class RclpyActionClient:
    """As of :class:`ActionClient`. Feedback may come while another callback runs."""

    def __init__(self, node: Any, kind: Any, action_type: str, action: str, group: Any, guard: Guard) -> None:
        self._client = ActionClient(node, kind, action, callback_group=group)
        self._type = action_type
        self._guard = guard
        self.action = action

    def wait(self, timeout_s: float) -> bool:
        return bool(self._client.wait_for_server(timeout_sec=timeout_s))

    def send_goal(
        self, goal: Message, feedback: Callable[[Message], None] | None = None, timeout_s: float = 5.0
    ) -> RclpyGoal:
        deadline = time.monotonic() + timeout_s
        if not self.wait(timeout_s):
            raise DriverError(f"no server of the action {self.action} ({self._type}) was there within {timeout_s} s")
        heard = self._guard(lambda message: feedback(message.feedback)) if feedback is not None else None
        future = self._client.send_goal_async(goal, feedback_callback=heard)
        if not wait_for(future, deadline - time.monotonic()):
            future.add_done_callback(self._guard(_cancel_late))
            raise DriverError(f"{self.action} ({self._type}) did not answer within {timeout_s} s")
        handle = future.result()
        if not handle.accepted:
            raise DriverError(f"{self.action}: the server rejected the goal")
        return RclpyGoal(handle, self.action)


def _cancel_late(future: Any) -> None:
    """Cancel a goal that was accepted when nobody waited for it any more."""
    handle = future.result()
    if handle.accepted:
        handle.cancel_goal_async()


class RclpyServerGoal:
    """As of :class:`ServerGoal`.

    Args:
        handle: rclpy's.
        is_closing: says whether the node is closed, which its goals are to end for.
    """

    def __init__(self, handle: Any, is_closing: Callable[[], bool]) -> None:
        self._handle = handle
        self._is_closing = is_closing
        self.request = handle.request

    @property
    def cancel_requested(self) -> bool:
        return self._is_closing() or bool(self._handle.is_cancel_requested)

    def publish_feedback(self, feedback: Message) -> None:
        self._handle.publish_feedback(feedback)

    def succeed(self) -> None:
        self._handle.succeed()

    def abort(self) -> None:
        self._handle.abort()

    def canceled(self) -> None:
        if self._handle.is_cancel_requested:
            self._handle.canceled()
        else:  # the node is closed; what the client did not cancel can only be aborted
            self._handle.abort()


def serve_action(
    node: Any,
    kind: Any,
    action: str,
    execute: Callable[[ServerGoal], Message],
    accept: Callable[[Message], bool] | None,
    group: Any,
    guard: Guard,
    is_closing: Callable[[], bool],
) -> None:
    """Serve an action; arguments as of :meth:`Node.create_action_server` and :class:`RclpyServerGoal`."""

    def decide(goal: Message) -> Any:
        try:
            return GoalResponse.ACCEPT if accept is None or accept(goal) else GoalResponse.REJECT
        except Exception:
            guard.report()
            return GoalResponse.REJECT

    def run(handle: Any) -> Message:
        try:
            result = execute(RclpyServerGoal(handle, is_closing))
        except Exception:
            guard.report()
            if handle.is_active:
                handle.abort()
            return kind.Result()
        if handle.is_active:
            handle.succeed()
        return result if result is not None else kind.Result()

    ActionServer(  # the node keeps it
        node,
        kind,
        action,
        run,
        callback_group=group,
        goal_callback=decide,
        cancel_callback=lambda handle: CancelResponse.ACCEPT,
    )

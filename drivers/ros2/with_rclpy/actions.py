"""Actions over rclpy."""

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from rclpy.action import ActionClient, ActionServer, CancelResponse, GoalResponse
from rclpy.task import Future

from robo_rl.core import DriverError

from ..answers import seconds, wait_for_answer
from ..api import GoalStatus, Message, ServerGoal
from ..qos import SERVICES
from .endpoints import Answer, Guard, ServerWatch, rclpy_qos, while_open


class Spins(Protocol):
    """Object with the executor of a thread; :class:`.node.Spinner` is one."""

    executor: Any


class RclpyGoal:
    """Goal of an action client; see :class:`.api.Goal`."""

    def __init__(self, client: "RclpyActionClient", handle: Any) -> None:
        self._client, self._handle = client, handle
        self._executors = client.servers()
        self._result = Answer(client.ask(handle.get_result_async))

    @property
    def status(self) -> GoalStatus:
        return GoalStatus(self._result.value.status) if self._result.wait(0.0) else GoalStatus.ACCEPTED

    def result(self, timeout_s: float) -> tuple[GoalStatus, Message]:
        action, servers = self._client.action, self._client.servers
        with while_open(action):
            ended = wait_for_answer(f"a goal of {action}", self._result.wait, self._executors, servers, timeout_s)
        if not ended:
            raise DriverError(f"{action}: the goal did not end within {seconds(timeout_s)}")
        return GoalStatus(self._result.value.status), self._result.value.result

    def cancel(self, timeout_s: float = 5.0) -> bool:
        answer = Answer(self._client.ask(self._handle.cancel_goal_async))
        if not answer.wait(timeout_s):
            raise DriverError(f"{self._client.action}: the server did not answer within {seconds(timeout_s)}")
        return bool(answer.value.goals_canceling)


class RclpyActionClient:
    """Client of an action; see :class:`.api.ActionClient`.

    Args:
        node: rclpy node in whose thread answers arrive.
        kind: rclpy's class of the action.
        action_type: ``package/action/Name``.
        action: fully qualified name.
        calls: spins ``node``.
        callbacks: spins the node in whose thread feedback is delivered.
        guard: reports exceptions of callbacks.
    """

    def __init__(
        self, node: Any, kind: Any, action_type: str, action: str, calls: Spins, callbacks: Spins, guard: Guard
    ) -> None:
        self._client = ActionClient(node, kind, action, **_profiles())
        self._type, self._calls, self._callbacks, self._guard = action_type, calls, callbacks, guard
        self.action = action
        self.servers = ServerWatch(node, f"{action}/_action/send_goal")

    def wait(self, timeout_s: float) -> bool:
        return bool(self._client.wait_for_server(timeout_sec=timeout_s))

    def send_goal(
        self, goal: Message, feedback: Callable[[Message], None] | None = None, timeout_s: float = 5.0
    ) -> RclpyGoal:
        with while_open(self.action):
            return self._send_goal(goal, feedback, timeout_s)

    def _send_goal(self, goal: Message, feedback: Callable[[Message], None] | None, timeout_s: float) -> RclpyGoal:
        deadline = time.monotonic() + timeout_s
        description = f"{self.action} ({self._type})"
        if not self.wait(timeout_s):
            raise DriverError(f"no server of the action {description} was there within {seconds(timeout_s)}")

        def pass_feedback(message: Any) -> None:
            if feedback is not None:
                self._callbacks.executor.create_task(self._guard(feedback), message.feedback)

        servers = self.servers()
        future = self.ask(lambda: self._client.send_goal_async(goal, feedback_callback=pass_feedback))
        answer = Answer(future)
        answered = False
        try:
            answered = wait_for_answer(description, answer.wait, servers, self.servers, deadline - time.monotonic())
        finally:
            if not answered:
                future.add_done_callback(self._guard.logged(_cancel_late))
        if not answered:
            raise DriverError(f"{description} did not answer within {seconds(timeout_s)}")
        if not answer.value.accepted:
            raise DriverError(f"{self.action}: the server rejected the goal")
        return RclpyGoal(self, answer.value)

    def ask(self, send: Callable[[], Any]) -> Any:
        """Send a request in the thread where its answer arrives, and return its future.

        If another thread sent it, rclpy might receive the answer before it has registered the request, and drop the
        answer.
        """
        sent = Answer(self._calls.executor.create_task(send))
        if not sent.wait(ASK_SECONDS):
            raise DriverError(f"{self.action}: the node is closed, or its thread stands still")
        return sent.value


ASK_SECONDS = 5.0
"""Longest wait for the thread that sends a request [s]; apart from that, it only receives answers."""


def _cancel_late(future: Any) -> None:
    """Cancel a goal that was accepted after the client had stopped waiting."""
    handle = future.result()
    if handle.accepted:
        handle.cancel_goal_async()


class RclpyServerGoal:
    """Goal of an action server; see :class:`.api.ServerGoal`.

    Args:
        handle: rclpy's handle of the goal.
        is_closing: returns whether the node is closed, which ends its goals.
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
        else:  # the node is closed, and a goal that the client did not cancel can only be aborted
            self._handle.abort()


def serve_action(
    node: Any,
    kind: Any,
    action: str,
    execute: Callable[[ServerGoal], Message],
    accept: Callable[[Message], bool] | None,
    guard: Guard,
    is_closing: Callable[[], bool],
) -> None:
    """Serve an action; see :meth:`Node.create_action_server` and :class:`RclpyServerGoal` for the arguments."""

    def decide(goal: Message) -> Any:
        try:
            with guard.turn():
                return GoalResponse.ACCEPT if accept is None or accept(goal) else GoalResponse.REJECT
        except Exception as error:  # an exception of the callback would end rclpy's executor
            guard.report(error)
            return GoalResponse.REJECT

    def work(handle: Any, done: Any) -> None:
        """Execute a goal in a separate thread."""
        result = None
        try:
            result = execute(RclpyServerGoal(handle, is_closing))
            if handle.is_active:
                handle.succeed()
        except Exception as error:  # the callback failed, but the goal needs a result
            guard.report(error)
            if handle.is_active:
                handle.abort()
        done.set_result(result if result is not None else kind.Result())
        node.executor.wake()

    async def run(handle: Any) -> Message:
        """Wait for the thread; the executor runs other callbacks meanwhile."""
        done = Future(executor=node.executor)
        threading.Thread(target=work, args=(handle, done), name=f"goal of {action}", daemon=True).start()
        return await done

    ActionServer(  # the node keeps a reference
        node,
        kind,
        action,
        run,
        goal_callback=decide,
        cancel_callback=lambda handle: CancelResponse.ACCEPT,
        **_profiles(),
    )


def _profiles() -> dict[str, Any]:
    """Return the profiles of an action's services as keyword arguments for rclpy."""
    return {f"{service}_service_qos_profile": rclpy_qos(SERVICES) for service in ("goal", "result", "cancel")}

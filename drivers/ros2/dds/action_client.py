"""Action clients: three services and a topic of feedback."""

import threading
import time
import uuid
import weakref
from collections.abc import Callable
from typing import Any

from robo_rl.core import DriverError

from ..answers import Servers, seconds, wait_for_answer
from ..api import GoalStatus, Message
from ..qos import QoSProfile
from .endpoint_factory import EndpointFactory
from .services import DdsClient
from .waiter import Waiter

CANCEL_TYPE = "action_msgs/srv/CancelGoal"
FEEDBACK_QOS = QoSProfile(depth=10)


class DdsGoal:
    """Goal of an action client; see :class:`.api.Goal`."""

    def __init__(self, client: "DdsActionClient", identity: bytes, feedback: Callable[[Message], None] | None) -> None:
        self.identity = identity
        self.feedback = feedback
        self.given_up = False
        self._client = client
        self._executors = client.servers()
        self._ended = threading.Event()
        self._status = GoalStatus.ACCEPTED
        self._result: Message = None

    @property
    def status(self) -> GoalStatus:
        return self._status

    def end(self, response: Message) -> None:
        """Store the response with the result."""
        self._status, self._result = GoalStatus(response.status), response.result
        self._ended.set()

    def result(self, timeout_s: float) -> tuple[GoalStatus, Message]:
        action, servers = self._client.action, self._client.servers
        if not wait_for_answer(f"a goal of {action}", self._ended.wait, self._executors, servers, timeout_s):
            raise DriverError(f"{action}: the goal did not end within {seconds(timeout_s)}")
        return self._status, self._result

    def cancel(self, timeout_s: float = 5.0) -> bool:
        return self._client.cancel(self.identity, timeout_s)


class DdsActionClient:
    """Client of an action; see :class:`.api.ActionClient`.

    Args:
        endpoints: creates writers and readers.
        action_type: ``package/action/Name``.
        action: fully qualified name.
        callbacks: calls feedback callbacks.
        replies: receives answers.
    """

    def __init__(
        self, endpoints: EndpointFactory, action_type: str, action: str, callbacks: Waiter, replies: Waiter
    ) -> None:
        self.action = action
        self._type = action_type
        self._types, self._advice = endpoints.types, endpoints.advice
        self._goals: weakref.WeakValueDictionary[bytes, DdsGoal] = weakref.WeakValueDictionary()
        self._send = DdsClient(endpoints, f"{action_type}_SendGoal", f"{action}/_action/send_goal", replies)
        self._get = DdsClient(endpoints, f"{action_type}_GetResult", f"{action}/_action/get_result", replies)
        self._cancel = DdsClient(endpoints, CANCEL_TYPE, f"{action}/_action/cancel_goal", replies)
        self._feedback = endpoints.reader(
            f"{action_type}_FeedbackMessage",
            f"rt{action}/_action/feedback",
            FEEDBACK_QOS,
            callbacks,
            self._receive_feedback,
        )

    def wait(self, timeout_s: float) -> bool:
        """Return whether a server became available within ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        return all(
            client.wait(max(0.0, deadline - time.monotonic())) for client in (self._send, self._get, self._cancel)
        )

    def send_goal(
        self, goal: Message, feedback: Callable[[Message], None] | None = None, timeout_s: float = 5.0
    ) -> DdsGoal:
        deadline = time.monotonic() + timeout_s
        if not self.wait(timeout_s):
            absent = f"no server of the action {self.action} ({self._type}) was there within {seconds(timeout_s)}"
            raise DriverError(f"{absent}{self._advice()}")
        handle = DdsGoal(self, uuid.uuid4().bytes, feedback)
        self._goals[handle.identity] = handle
        request = self._types.make(f"{self._type}_SendGoal_Request", goal_id=_uuid(handle.identity), goal=goal)

        def cancel_late(answer: Message) -> None:
            if handle.given_up and answer.accepted:
                self._cancel.start(self._cancellation(handle.identity))

        try:
            answer = self._send.call(request, max(0.0, deadline - time.monotonic()), cancel_late)
        except DriverError:
            handle.given_up = True
            self._cancel.start(self._cancellation(handle.identity))  # the server may still have accepted the goal
            raise
        if not answer.accepted:
            raise DriverError(f"{self.action}: the server rejected the goal")
        result_request = self._types.make(f"{self._type}_GetResult_Request", goal_id=_uuid(handle.identity))
        self._get.start(result_request, handle.end)  # keeps a reference to the goal until it ends
        return handle

    def servers(self) -> Servers:
        """Return the servers that accept goals now."""
        return self._send.servers()

    def cancel(self, identity: bytes, timeout_s: float) -> bool:
        """Request cancellation of a goal; return whether the server accepts it."""
        answer = self._cancel.call(self._cancellation(identity), timeout_s)
        return any(bytes(info.goal_id.uuid) == identity for info in answer.goals_canceling)

    def _cancellation(self, identity: bytes) -> Message:
        return self._types.make(f"{CANCEL_TYPE}_Request", goal_info={"goal_id": _uuid(identity)})

    def _receive_feedback(self, data: memoryview, writer: int) -> None:
        message: Any = self._types.deserialize(f"{self._type}_FeedbackMessage", data)
        handle = self._goals.get(bytes(message.goal_id.uuid))
        if handle is not None and handle.feedback is not None:
            handle.feedback(message.feedback)


def _uuid(identity: bytes) -> dict[str, bytes]:
    return {"uuid": identity}

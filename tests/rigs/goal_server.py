"""A server of goals whose answers a test gives, and goals that it has accepted."""

import queue
from types import SimpleNamespace
from typing import Any

from robo_rl.drivers.ros2 import GoalStatus
from robo_rl.drivers.ros2.message_types import RosbagsTypes

RESULT = SimpleNamespace(position=0.01, stalled=True)


class Heard:
    """A publisher, of which the servers that are present hear."""

    def __init__(self, server: "Server", topic: str) -> None:
        self._server, self.topic = server, topic

    @property
    def matched_count(self) -> int:
        return len(self._server.present)

    def publish(self, message: Any) -> None: ...


class Server:
    """Stands in for a node and its client of an action; the test gives the answers."""

    def __init__(self) -> None:
        self.types = RosbagsTypes()
        self.sent: list[Any] = []
        self.answers: queue.Queue[Any] = queue.Queue()
        self.present: frozenset[str] = frozenset({"first"})

    def servers(self) -> frozenset[str]:
        return self.present

    def create_timer(self, period: float, callback: Any) -> None: ...

    def create_action_client(self, kind: str, name: str) -> "Server":
        return self

    def create_publisher(self, kind: str, topic: str, qos: Any) -> Any:
        return Heard(self, topic)

    def now(self) -> Any:
        return {}

    def send_goal(self, goal: Any, feedback: Any = None, timeout_s: float = 5.0) -> Any:
        self.sent.append(goal)
        answer = self.answers.get(timeout=20)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def positions(self) -> list[float]:
        return [goal.command.position for goal in self.sent]


class Accepted:
    """A goal that its server has accepted."""

    def __init__(self) -> None:
        self.status = GoalStatus.EXECUTING
        self.cancelled = 0

    def cancel(self, timeout_s: float) -> bool:
        self.cancelled += 1
        return True

    def result(self, timeout_s: float) -> Any:
        return self.status, RESULT

"""The client layer that both implementations offer: rclpy's names, few enough to be the same over plain DDS.

Messages are objects with the fields of their definition as attributes. Numbers in arrays are NumPy arrays. Callbacks
run one after another in a thread of the node's own, so that they need no locks among themselves; goals of an action
server are executed in threads of theirs. Time-outs are monotonic [s].
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .answers import Servers
from .qos import QoSProfile

Message = Any
"""An object with the fields of a message definition."""
Receive = Callable[[Message], None]
Answer = Callable[[Message], Message]
Accept = Callable[[Message], bool]

TIME = "builtin_interfaces/msg/Time"

DEFAULT_QOS = QoSProfile()


class GoalStatus(IntEnum):
    """States of an action's goal (action_msgs/msg/GoalStatus)."""

    UNKNOWN = 0
    ACCEPTED = 1
    EXECUTING = 2
    CANCELING = 3
    SUCCEEDED = 4
    CANCELED = 5
    ABORTED = 6


@dataclass(frozen=True)
class Problem:
    """Two ends of a topic or service that do not fit together.

    Attributes:
        topic: fully qualified name.
        ours: type or profile on our side.
        theirs: the same on the other.
        node: fully qualified name of the other node, empty where it is not known.
        text: one line that says all of it and what to do.
    """

    topic: str
    ours: str
    theirs: str
    node: str
    text: str


@dataclass(frozen=True)
class Graph:
    """Nodes, topics and services, as far as discovery has come.

    Attributes:
        nodes: fully qualified names, this node's own among them.
        topics: types by fully qualified name of the topic.
        services: types by fully qualified name of the service.
        unanswering: nodes on a middleware whose services cannot be used from here, nor ours from there.
    """

    nodes: tuple[str, ...]
    topics: Mapping[str, tuple[str, ...]]
    services: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unanswering: tuple[str, ...] = ()


class MessageTypes(Protocol):
    """Message classes by name, ``package/msg/Name``; also ``srv/Name_Request`` and ``action/Name_Goal``."""

    def __getitem__(self, name: str) -> type: ...

    def __contains__(self, name: str) -> bool: ...

    def make(self, name: str, /, **fields: Any) -> Message:
        """Return a message with ``fields`` set and all others at their defaults: zero, empty.

        Nested messages may be given as dictionaries, sequences as lists, arrays and numbers of any kind.

        Raises:
            ConfigError: if the type or a field is not known, or a value does not fit.
        """
        ...


def wall_time(types: MessageTypes) -> Message:
    """Return builtin_interfaces/msg/Time of the wall clock: for stamps alone, never for time-outs."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return types.make(TIME, sec=seconds, nanosec=nanoseconds)


class Repeater(Protocol):
    """Sends one message again and again, at other times and with other numbers: in a tenth of the time of a new one.

    For one thread.
    """

    def publish(self, stamp: Message, numbers: NDArray[np.float64]) -> None:
        """Send the message.

        Args:
            stamp: for every builtin_interfaces/msg/Time in the message.
            numbers: (n,) for all its float64, in the order of their definition.

        Raises:
            ValueError: if the message has another number of them.
            DriverError: if it cannot be sent.
        """
        ...


class Publisher(Protocol):
    """Sends messages on a topic."""

    @property
    def topic(self) -> str: ...

    @property
    def matched_count(self) -> int:
        """Subscriptions that receive what is published."""
        ...

    def publish(self, message: Message) -> None: ...

    def wait_for_all_acked(self, timeout_s: float) -> bool:
        """Return whether all reliable subscriptions have received what was published, within ``timeout_s``."""
        ...

    def repeater(self, message: Message) -> Repeater:
        """Return what sends ``message`` with other times and numbers. Names and lengths stay as they are in it.

        Raises:
            ConfigError: if it does not fit the topic's type.
        """
        ...


class Subscription(Protocol):
    """Receives messages of a topic."""

    @property
    def topic(self) -> str: ...

    @property
    def matched_count(self) -> int:
        """Publishers that are received."""
        ...

    def latest(self) -> tuple[Message, int] | None:
        """Return the newest message and when it came (monotonic clock [ns]), or None before the first."""
        ...


class Client(Protocol):
    """Calls a service."""

    def wait(self, timeout_s: float) -> bool:
        """Return whether a server was there within ``timeout_s``."""
        ...

    @property
    def servers(self) -> Callable[[], Servers]:
        """Function that returns the servers that receive requests now."""
        ...

    def call(self, request: Message, timeout_s: float) -> Message:
        """Return the server's answer. May be called from callbacks too.

        Raises:
            DriverError: if there is no answer within ``timeout_s``.
        """
        ...


class Timer(Protocol):
    """Calls back at a fixed rate; periods that were missed are left out."""

    def cancel(self) -> None: ...


class Goal(Protocol):
    """A goal that an action server accepted."""

    @property
    def status(self) -> GoalStatus: ...

    def result(self, timeout_s: float) -> tuple[GoalStatus, Message]:
        """Return how the goal ended and its result.

        Raises:
            DriverError: if it did not end within ``timeout_s``.
        """
        ...

    def cancel(self, timeout_s: float = 5.0) -> bool:
        """Ask the server to cancel; return whether it will."""
        ...


class ActionClient(Protocol):
    """Sends goals to an action server."""

    @property
    def servers(self) -> Callable[[], Servers]:
        """Function that returns the servers that receive goals now."""
        ...

    def wait(self, timeout_s: float) -> bool: ...

    def send_goal(
        self, goal: Message, feedback: Callable[[Message], None] | None = None, timeout_s: float = 5.0
    ) -> Goal:
        """Send a goal; ``feedback`` is called in the node's thread. One that is accepted too late is cancelled.

        Raises:
            DriverError: if the server rejects the goal or does not answer within ``timeout_s``.
        """
        ...


class ServerGoal(Protocol):
    """A goal that is being executed.

    Attributes:
        request: the goal.
        cancel_requested: whether the client has cancelled, or the node is closed.
    """

    request: Message

    @property
    def cancel_requested(self) -> bool: ...

    def publish_feedback(self, feedback: Message) -> None: ...

    def succeed(self) -> None: ...

    def abort(self) -> None: ...

    def canceled(self) -> None: ...


Execute = Callable[[ServerGoal], Message]


class Parameters(Protocol):
    """The parameters of a node."""

    def declare(
        self, name: str, default: Any, change: Callable[[Any], None] | None = None, read_only: bool = False
    ) -> Any:
        """Declare a parameter and return its value: what the node was opened with, else ``default``.

        Args:
            name: may have parts, ``limits.low``.
            default: also says what type its values have.
            change: called in the node's thread with each new value before it is set; refuses one by a
                :class:`ConfigError`, whose text is returned to the caller that set it.
            read_only: whether it can only be read.
        """
        ...

    def get(self, name: str) -> Any:
        """Return the value of a parameter.

        Raises:
            ConfigError: if it was not declared.
        """
        ...


class Node(AbstractContextManager["Node"], Protocol):
    """A node: close it, or use it in a ``with`` statement."""

    @property
    def types(self) -> MessageTypes: ...

    @property
    def name(self) -> str:
        """Fully qualified."""
        ...

    @property
    def parameters(self) -> Parameters: ...

    @property
    def graph(self) -> Graph: ...

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Types and profiles that do not fit, each at most 5 s after both ends exist."""
        ...

    def create_publisher(self, message_type: str, topic: str, qos: QoSProfile = DEFAULT_QOS) -> Publisher: ...

    def create_subscription(
        self, message_type: str, topic: str, callback: Receive | None = None, qos: QoSProfile = DEFAULT_QOS
    ) -> Subscription: ...

    def offered(self, topic: str) -> tuple[QoSProfile, ...]:
        """Return the reliability and durability of each publisher of a topic, as far as discovery has come."""
        ...

    def create_client(self, service_type: str, service: str) -> Client: ...

    def create_service(self, service_type: str, service: str, callback: Answer) -> None: ...

    def create_timer(self, period_s: float, callback: Callable[[], None]) -> Timer: ...

    def create_action_client(self, action_type: str, action: str) -> ActionClient: ...

    def create_action_server(
        self, action_type: str, action: str, execute: Execute, accept: Accept | None = None
    ) -> None:
        """Serve an action.

        Args:
            action_type: ``package/action/Name``.
            action: name.
            execute: executes a goal in a thread of its own and returns the result. A goal on which it calls none of
                ``succeed``, ``abort`` and ``canceled`` has succeeded; one that raises is aborted.
            accept: says of a goal whether it is accepted; None: all are.
        """
        ...

    def now(self) -> Message:
        """Return the time of the wall clock, see :func:`wall_time`."""
        ...

    def close(self) -> None: ...

"""Client layer that both implementations provide: a subset of rclpy's interface that plain DDS can also offer.

Messages are objects with the fields of their definition as attributes. Arrays of numbers are NumPy arrays. Callbacks
run one after another in the node's thread, so that they need no locks between them. Goals of an action server are
executed in separate threads. Time-outs are monotonic [s].
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
"""Object with the fields of a message definition."""
Receive = Callable[[Message], None]
Answer = Callable[[Message], Message]
Accept = Callable[[Message], bool]

TIME = "builtin_interfaces/msg/Time"

DEFAULT_QOS = QoSProfile()


class GoalStatus(IntEnum):
    """States of an action goal (action_msgs/msg/GoalStatus)."""

    UNKNOWN = 0
    ACCEPTED = 1
    EXECUTING = 2
    CANCELING = 3
    SUCCEEDED = 4
    CANCELED = 5
    ABORTED = 6


@dataclass(frozen=True)
class Problem:
    """Mismatch between two ends of a topic or service.

    Attributes:
        topic: fully qualified name.
        local: type or profile of the local end.
        remote: type or profile of the remote end.
        node: fully qualified name of the remote node; empty if it is unknown.
        text: one line with all of this and advice.
    """

    topic: str
    local: str
    remote: str
    node: str
    text: str


@dataclass(frozen=True)
class Graph:
    """Nodes, topics and services that discovery has found so far.

    Attributes:
        nodes: fully qualified names, including this node's own.
        topics: types by fully qualified name of the topic.
        services: types by fully qualified name of the service.
        unanswering: nodes on a middleware whose services are incompatible with those of this node.
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
        """Return a message with ``fields`` set and all others at their defaults: zero or empty.

        Nested messages may be dictionaries, sequences may be lists, and arrays and numbers may have any numeric type.

        Raises:
            ConfigError: if the type or a field is unknown, or a value does not match its field.
        """
        ...


def wall_time(types: MessageTypes) -> Message:
    """Return the wall clock as a builtin_interfaces/msg/Time: only for stamps, never for time-outs."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return types.make(TIME, sec=seconds, nanosec=nanoseconds)


class Repeater(Protocol):
    """Sender of one message with changing times and numbers, in a tenth of the time that a new message takes.

    Not thread-safe.
    """

    def publish(self, stamp: Message, numbers: NDArray[np.float64]) -> None:
        """Send the message.

        Args:
            stamp: value of each builtin_interfaces/msg/Time in the message.
            numbers: values (n,) of all its float64, in the order of their definition.
        """
        ...


class Publisher(Protocol):
    """Sender of messages on a topic.

    Attributes:
        message_type: ``package/msg/Name``.
    """

    message_type: str

    @property
    def topic(self) -> str: ...

    @property
    def matched_count(self) -> int:
        """Number of subscriptions that receive the messages."""
        ...

    def publish(self, message: Message) -> None: ...

    def wait_for_all_acked(self, timeout_s: float) -> bool:
        """Return whether all reliable subscriptions received all messages within ``timeout_s``."""
        ...

    def repeater(self, message: Message) -> Repeater:
        """Return a sender of ``message`` with changing times and numbers. Names and lengths are fixed.

        Raises:
            ConfigError: if the message does not match the topic's type.
        """
        ...


class Subscription(Protocol):
    """Receiver of messages on a topic."""

    @property
    def topic(self) -> str: ...

    @property
    def matched_count(self) -> int:
        """Number of publishers that are received."""
        ...

    def latest(self) -> tuple[Message, int] | None:
        """Return the newest message and its arrival time (monotonic clock [ns]), or None before the first."""
        ...


class Client(Protocol):
    """Client of a service.

    Attributes:
        service: fully qualified name.
    """

    service: str

    def wait(self, timeout_s: float) -> bool:
        """Return whether a server became available within ``timeout_s``."""
        ...

    @property
    def servers(self) -> Callable[[], Servers]:
        """Function that returns the servers that receive requests now."""
        ...

    def call(self, request: Message, timeout_s: float) -> Message:
        """Return the server's answer. Callbacks may call this too.

        Raises:
            DriverError: if there is no answer within ``timeout_s``.
        """
        ...


class Timer(Protocol):
    """Periodic callback; missed periods are skipped."""

    def cancel(self) -> None: ...


class Goal(Protocol):
    """Goal that an action server accepted."""

    @property
    def status(self) -> GoalStatus: ...

    def result(self, timeout_s: float) -> tuple[GoalStatus, Message]:
        """Return the final status of the goal and its result.

        Raises:
            DriverError: if it did not end within ``timeout_s``.
        """
        ...

    def cancel(self, timeout_s: float = 5.0) -> bool:
        """Request cancellation; return whether the server accepts it."""
        ...


class ActionClient(Protocol):
    """Client of an action server.

    Attributes:
        action: fully qualified name.
    """

    action: str

    @property
    def servers(self) -> Callable[[], Servers]:
        """Function that returns the servers that receive goals now."""
        ...

    def wait(self, timeout_s: float) -> bool: ...

    def send_goal(
        self, goal: Message, feedback: Callable[[Message], None] | None = None, timeout_s: float = 5.0
    ) -> Goal:
        """Send a goal; ``feedback`` is called in the node's thread. A goal that is accepted too late is cancelled.

        Raises:
            DriverError: if the server rejects the goal or does not answer within ``timeout_s``.
        """
        ...


class ServerGoal(Protocol):
    """Goal that a server is executing.

    Attributes:
        request: the goal.
        cancel_requested: whether the client cancelled the goal or the node was closed.
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
    """Parameters of a node."""

    def declare(
        self, name: str, default: Any, change: Callable[[Any], None] | None = None, read_only: bool = False
    ) -> Any:
        """Declare a parameter and return its value: the one that the node was opened with, otherwise ``default``.

        Args:
            name: name, possibly with parts, such as ``limits.low``.
            default: default value, which also determines the type.
            change: called in the node's thread with each new value before it is set. It rejects a value by raising
                :class:`ConfigError`, whose text is returned to the caller that set it.
            read_only: whether the parameter cannot be set.
        """
        ...

    def get(self, name: str) -> Any:
        """Return the value of a parameter.

        Raises:
            ConfigError: if the parameter was not declared.
        """
        ...


class Node(AbstractContextManager["Node"], Protocol):
    """Node; close it, or use it in a ``with`` statement."""

    @property
    def types(self) -> MessageTypes: ...

    @property
    def name(self) -> str:
        """Fully qualified name of the node."""
        ...

    @property
    def parameters(self) -> Parameters: ...

    @property
    def graph(self) -> Graph: ...

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Mismatches of types and profiles, each at most 5 s after both ends exist."""
        ...

    def create_publisher(self, message_type: str, topic: str, qos: QoSProfile = DEFAULT_QOS) -> Publisher: ...

    def create_subscription(
        self, message_type: str, topic: str, callback: Receive | None = None, qos: QoSProfile = DEFAULT_QOS
    ) -> Subscription: ...

    def offered(self, topic: str) -> tuple[QoSProfile, ...]:
        """Return reliability and durability of each publisher of a topic that discovery has found so far."""
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
            action: name of the action.
            execute: executes a goal in a separate thread and returns the result. The goal succeeds if it calls none of
                ``succeed``, ``abort`` and ``canceled``, and is aborted if it raises.
            accept: returns whether a goal is accepted; None: all goals are accepted.
        """
        ...

    def now(self) -> Message:
        """Return the time of the wall clock; see :func:`wall_time`."""
        ...

    def close(self) -> None: ...

"""Publishers, subscriptions and service clients over rclpy."""

import array
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.duration import Duration
from rclpy.exceptions import InvalidHandle
from rclpy.qos import DurabilityPolicy, HistoryPolicy, ReliabilityPolicy
from rclpy.qos import QoSProfile as RclpyProfile

from robo_rl.core import ConfigError, DriverError

from ..answers import Servers, seconds, wait_for_answer
from ..api import Message
from ..failures import failure_text
from ..qos import QoSProfile

CLOSED_SECONDS = 0.1
"""Time between two checks for a closed node, while a callback waits for its turn [s]."""


def rclpy_qos(qos: QoSProfile) -> Any:
    """Return a profile as an rclpy object."""
    lifespan = {} if qos.lifespan is None else {"lifespan": Duration(nanoseconds=round(qos.lifespan * 1e9))}
    return RclpyProfile(
        depth=qos.depth,
        history=HistoryPolicy.KEEP_ALL if qos.history == "keep_all" else HistoryPolicy.KEEP_LAST,
        reliability=ReliabilityPolicy.RELIABLE if qos.reliability == "reliable" else ReliabilityPolicy.BEST_EFFORT,
        durability=(
            DurabilityPolicy.TRANSIENT_LOCAL if qos.durability == "transient_local" else DurabilityPolicy.VOLATILE
        ),
        **lifespan,
    )


@contextmanager
def while_open(what: str) -> Iterator[None]:
    """Raise a DriverError about ``what`` if its node is closed meanwhile."""
    try:
        yield
    except InvalidHandle as error:
        raise DriverError(f"{what}: the node is closed") from error


class Guard:
    """Wrapper that runs the callbacks of a node one after another, whichever thread they are called in.

    Exceptions are logged; they would otherwise end rclpy's executor.

    Args:
        logger: logger of the node.

    Attributes:
        closed: whether the node is closed. Callbacks that still wait for their turn are then left out.
    """

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._running = threading.RLock()
        self.closed = False

    def __call__(self, callback: Callable[..., Any]) -> Callable[..., None]:
        def guarded(*arguments: Any) -> None:
            with self.turn():
                callback(*arguments)

        return self.logged(guarded)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other callback runs. Raises a DriverError if the node is closed meanwhile."""
        while not self._running.acquire(timeout=CLOSED_SECONDS):
            if self.closed:  # closed by the running callback, which waits for this thread
                raise DriverError("the node is closed")
        try:
            yield
        finally:
            self._running.release()

    def logged(self, callback: Callable[..., Any]) -> Callable[..., None]:
        """Return ``callback`` with its exceptions logged, but without a turn."""

        def reporting(*arguments: Any) -> None:
            try:
                callback(*arguments)
            except Exception as error:  # an exception of the callback would end rclpy's executor
                self.report(error)

        return reporting

    def report(self, error: Exception) -> None:
        """Log an exception, unless the node is closed or it repeats."""
        if not self.closed and (text := failure_text(error)) is not None:
            self._logger.error(f"{text}:\n{''.join(traceback.format_exception(error))}")


class RclpyPublisher:
    """Publisher of a topic; see :class:`.api.Publisher`."""

    def __init__(self, publisher: Any, message_type: str, qos: QoSProfile) -> None:
        self._publisher = publisher
        self.topic = str(publisher.topic_name)
        self.message_type = message_type
        self.qos = qos

    @property
    def matched_count(self) -> int:
        return int(self._publisher.get_subscription_count())

    def publish(self, message: Message) -> None:
        try:
            with while_open(self.topic):
                self._publisher.publish(message)
        except TypeError as error:
            raise ConfigError(f"{self.topic} ({self.message_type}): {error}") from error

    def wait_for_all_acked(self, timeout_s: float) -> bool:
        return bool(self._publisher.wait_for_all_acked(Duration(nanoseconds=round(1e9 * timeout_s))))

    def repeater(self, message: Message) -> "RclpyRepeater":
        return RclpyRepeater(self, message)


class RclpyRepeater:
    """Repeater that sets the fields of a message; see :class:`.api.Repeater`.

    Args:
        publisher: sends the message.
        message: message to send.
    """

    def __init__(self, publisher: RclpyPublisher, message: Message) -> None:
        self._publisher, self._message = publisher, message
        self._times: list[Message] = []
        self._fields: list[tuple[Message, str, int | None]] = []  # of float64, with the array length or None
        self._find(message)
        self._count = sum(1 if size is None else size for _, _, size in self._fields)

    def _find(self, message: Message) -> None:
        """Record the times and numbers of a message and of its nested messages."""
        if message.get_fields_and_field_types() == {"sec": "int32", "nanosec": "uint32"}:
            self._times.append(message)
        for field, kind in message.get_fields_and_field_types().items():
            value = getattr(message, field)
            if kind == "double":
                self._fields.append((message, field, None))
            elif kind.startswith(("double[", "sequence<double")):
                self._fields.append((message, field, len(value)))
            elif "/" in kind:
                for nested in value if isinstance(value, list) else [value]:
                    self._find(nested)

    def publish(self, stamp: Message, numbers: NDArray[np.float64]) -> None:
        if numbers.shape != (self._count,):
            raise ValueError(f"{self._publisher.topic}: expected {self._count} numbers, got {numbers.shape}")
        for time_field in self._times:
            time_field.sec, time_field.nanosec = stamp.sec, stamp.nanosec
        first = 0
        for message, field, size in self._fields:
            if size is None:
                setattr(message, field, float(numbers[first]))
            elif isinstance(getattr(message, field), np.ndarray):
                setattr(message, field, numbers[first : first + size])
            else:  # rclpy checks the elements of anything other than an array.array individually
                setattr(message, field, array.array("d", numbers[first : first + size].tobytes()))
            first += 1 if size is None else size
        self._publisher.publish(self._message)


class RclpySubscription:
    """Subscription to a topic; see :class:`.api.Subscription`."""

    def __init__(
        self,
        node: Any,
        topic: str,
        message_type: str,
        qos: QoSProfile,
        callback: Callable[[Message], None] | None,
    ) -> None:
        self._node = node
        self.topic = topic
        self.message_type = message_type
        self.qos = qos
        self._callback = callback
        self._latest: tuple[Message, int] | None = None

    @property
    def matched_count(self) -> int:
        """Number of publishers of the topic; older versions of rclpy do not report which of them match."""
        return int(self._node.count_publishers(self.topic))

    def receive(self, message: Message) -> None:
        """Store a message and pass it to the callback."""
        self._latest = message, time.monotonic_ns()
        if self._callback is not None:
            self._callback(message)

    def latest(self) -> tuple[Message, int] | None:
        return self._latest


class Answer:
    """Result of an rclpy future, for a thread other than the one in which its node spins.

    Args:
        future: rclpy's future.
    """

    def __init__(self, future: Any) -> None:
        self._future = future
        self._done = threading.Event()
        future.add_done_callback(lambda _: self._done.set())

    def wait(self, timeout_s: float) -> bool:
        """Return whether the result arrived within ``timeout_s``."""
        return self._done.wait(max(0.0, timeout_s))

    @property
    def value(self) -> Any:
        """The result, once it has arrived. Raises the exception of the future, if it has one."""
        return self._future.result()


class ServerWatch:
    """Observer of the servers that a service has.

    Args:
        node: rclpy's node.
        service: fully qualified name.
    """

    def __init__(self, node: Any, service: str) -> None:
        self._node, self._topic = node, f"rr{service}Reply"

    def __call__(self) -> Servers:
        """Return the identities of the servers that discovery has found so far."""
        publishers = self._node.get_publishers_info_by_topic(self._topic, no_mangle=True)
        return frozenset(bytes(endpoint.endpoint_gid) for endpoint in publishers)


class RclpyClient:
    """Client of a service; see :class:`.api.Client`."""

    def __init__(self, client: Any, service_type: str, service: str, servers: ServerWatch) -> None:
        self._client = client
        self._type = service_type
        self.servers = servers
        self.service = service

    def wait(self, timeout_s: float) -> bool:
        return bool(self._client.wait_for_service(timeout_sec=timeout_s))

    def call(self, request: Message, timeout_s: float) -> Message:
        """Return the server's answer; see :class:`.api.Client`.

        Raises:
            ServerLostError: if the server ends or restarts before it answers.
            DriverError: if there is no server, or no answer in time.
        """
        description = f"{self.service} ({self._type})"
        with while_open(description):
            return self._call(request, timeout_s, description)

    def _call(self, request: Message, timeout_s: float, description: str) -> Message:
        deadline = time.monotonic() + timeout_s
        if not self.wait(timeout_s):
            raise DriverError(f"no server of {description} was there within {seconds(timeout_s)}")
        servers = self.servers()
        future = self._client.call_async(request)
        answer = Answer(future)
        try:
            if wait_for_answer(description, answer.wait, servers, self.servers, deadline - time.monotonic()):
                return answer.value
        finally:
            self._client.remove_pending_request(future)
        raise DriverError(f"{description} did not answer within {seconds(timeout_s)}")

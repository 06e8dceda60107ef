"""Publishers, subscriptions and clients of services on rclpy."""

import array
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, HistoryPolicy, ReliabilityPolicy
from rclpy.qos import QoSProfile as RclpyProfile

from robo_rl.core import ConfigError, DriverError

from ..answers import Servers, seconds, wait_for_answer
from ..api import Message
from ..qos import QoSProfile


def rclpy_qos(qos: QoSProfile) -> Any:
    """Return a profile as rclpy has it."""
    more = {} if qos.lifespan is None else {"lifespan": Duration(nanoseconds=round(qos.lifespan * 1e9))}
    return RclpyProfile(
        depth=qos.depth,
        history=HistoryPolicy.KEEP_ALL if qos.history == "keep_all" else HistoryPolicy.KEEP_LAST,
        reliability=ReliabilityPolicy.RELIABLE if qos.reliability == "reliable" else ReliabilityPolicy.BEST_EFFORT,
        durability=(
            DurabilityPolicy.TRANSIENT_LOCAL if qos.durability == "transient_local" else DurabilityPolicy.VOLATILE
        ),
        **more,
    )


class Guard:
    """Logs what callbacks raise: rclpy's executor would end.

    Args:
        logger: of the node.
    """

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def __call__(self, callback: Callable[..., Any]) -> Callable[..., None]:
        def guarded(*arguments: Any) -> None:
            try:
                callback(*arguments)
            except Exception:
                self.report()

        return guarded

    def report(self) -> None:
        """Log the exception that is being handled."""
        self._logger.error(f"A callback failed:\n{traceback.format_exc()}")


class RclpyPublisher:
    """A :class:`.api.Publisher`."""

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
            self._publisher.publish(message)
        except TypeError as error:
            raise ConfigError(f"{self.topic} ({self.message_type}): {error}") from error

    def wait_for_all_acked(self, timeout_s: float) -> bool:
        return bool(self._publisher.wait_for_all_acked(Duration(nanoseconds=round(1e9 * timeout_s))))

    def repeater(self, message: Message) -> "RclpyRepeater":
        return RclpyRepeater(self, message)


class RclpyRepeater:
    """A :class:`.api.Repeater` that sets the fields of a message.

    Args:
        publisher: sends it.
        message: what is sent.
    """

    def __init__(self, publisher: RclpyPublisher, message: Message) -> None:
        self._publisher, self._message = publisher, message
        self._times: list[Message] = []
        self._fields: list[tuple[Message, str, int | None]] = []  # of float64: how many, None for one that is no array
        self._find(message)
        self._count = sum(1 if size is None else size for _, _, size in self._fields)

    def _find(self, message: Message) -> None:
        """Note the times and numbers of a message and of those in it."""
        if message.get_fields_and_field_types() == {"sec": "int32", "nanosec": "uint32"}:
            self._times.append(message)
        for field, kind in message.get_fields_and_field_types().items():
            value = getattr(message, field)
            if kind == "double":
                self._fields.append((message, field, None))
            elif kind.startswith(("double[", "sequence<double")):
                self._fields.append((message, field, len(value)))
            elif "/" in kind:
                for each in value if isinstance(value, list) else [value]:
                    self._find(each)

    def publish(self, stamp: Message, numbers: NDArray[np.float64]) -> None:
        if numbers.shape != (self._count,):
            raise ValueError(f"{self._publisher.topic}: expected {self._count} numbers, got {numbers.shape}")
        for each in self._times:
            each.sec, each.nanosec = stamp.sec, stamp.nanosec
        first = 0
        for message, field, size in self._fields:
            if size is None:
                setattr(message, field, float(numbers[first]))
            elif isinstance(getattr(message, field), np.ndarray):
                setattr(message, field, numbers[first : first + size])
            else:  # rclpy checks the elements of anything but an array.array one by one
                setattr(message, field, array.array("d", numbers[first : first + size].tobytes()))
            first += 1 if size is None else size
        self._publisher.publish(self._message)


class RclpySubscription:
    """A :class:`.api.Subscription`."""

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
        """Publishers of the topic; rclpy of older distributions cannot say which of them are matched."""
        return int(self._node.count_publishers(self.topic))

    def receive(self, message: Message) -> None:
        """Take a message."""
        self._latest = message, time.monotonic_ns()
        if self._callback is not None:
            self._callback(message)

    def latest(self) -> tuple[Message, int] | None:
        return self._latest


class Answer:
    """The result of an rclpy future, for a thread other than the one in which its node spins.

    Args:
        future: rclpy's.
    """

    def __init__(self, future: Any) -> None:
        self._future = future
        self._done = threading.Event()
        future.add_done_callback(lambda _: self._done.set())

    def wait(self, timeout_s: float) -> bool:
        """Return whether it is there within ``timeout_s``."""
        return self._done.wait(max(0.0, timeout_s))

    @property
    def value(self) -> Any:
        """The result, once it is there. Raises what the future holds as its exception."""
        return self._future.result()


class ServerWatch:
    """Which servers of a service are there.

    Args:
        node: rclpy's.
        service: fully qualified name.
    """

    def __init__(self, node: Any, service: str) -> None:
        self._node, self._topic = node, f"rr{service}Reply"

    def __call__(self) -> Servers:
        """Return their identities; none while discovery has not come so far."""
        found = self._node.get_publishers_info_by_topic(self._topic, no_mangle=True)
        return frozenset(bytes(endpoint.endpoint_gid) for endpoint in found)


class RclpyClient:
    """A :class:`.api.Client`."""

    def __init__(self, client: Any, service_type: str, service: str, servers: ServerWatch) -> None:
        self._client = client
        self._type = service_type
        self.servers = servers
        self.service = service

    def wait(self, timeout_s: float) -> bool:
        return bool(self._client.wait_for_service(timeout_sec=timeout_s))

    def call(self, request: Message, timeout_s: float) -> Message:
        """Return the server's answer, see :class:`.api.Client`.

        Raises:
            ServerLostError: if the server ends, or is started again, before it answers.
            DriverError: if there is no server, or no answer in time.
        """
        deadline = time.monotonic() + timeout_s
        named = f"{self.service} ({self._type})"
        if not self.wait(timeout_s):
            raise DriverError(f"no server of {named} was there within {seconds(timeout_s)}")
        servers = self.servers()
        future = self._client.call_async(request)
        answer = Answer(future)
        try:
            if wait_for_answer(named, answer.wait, servers, self.servers, deadline - time.monotonic()):
                return answer.value
        finally:
            self._client.remove_pending_request(future)
        raise DriverError(f"{named} did not answer within {seconds(timeout_s)}")

"""A ROS 2 node over plain DDS."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..api import DEFAULT_QOS, Message
from ..message_types import RosbagsTypes
from ..names import Names
from ..qos import QoSProfile
from .configuration import Discovery
from .endpoints import DdsPublisher, DdsSubscription, Reader, Writer, cyclone_qos
from .participant import Participant
from .timer import DdsTimer
from .topic_types import TopicTypes
from .waiter import Waiter


class DdsNode:
    """As of :class:`Node`. It has a participant of its own.

    Args:
        name: of the node.
        namespace: its namespace.
        remappings: names to change, see :meth:`Names.make`.
        parameters: values that take the place of declared defaults.
        interfaces: folders with a user's definitions.
        discovery: domain and whom to look for; None: what the environment says.

    Raises:
        ConfigError: if a name, a definition or an environment variable is not allowed.
        DriverError: if Cyclone DDS refuses the settings.
    """

    implementation = "dds"

    def __init__(
        self,
        name: str,
        namespace: str = "",
        remappings: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        interfaces: Iterable[str | Path] = (),
        discovery: Discovery | None = None,
    ) -> None:
        self.names = Names.make(name, namespace, remappings or {})
        self.types = RosbagsTypes(folders=interfaces)
        self._topic_types = TopicTypes(self.types)
        self._participant = Participant(discovery or Discovery.from_environment())
        self._callbacks = Waiter(self._participant.handle, f"{self.names.node}: callbacks")
        self._closed = False

    @property
    def name(self) -> str:
        return self.names.full_name

    def create_publisher(self, message_type: str, topic: str, qos: QoSProfile = DEFAULT_QOS) -> DdsPublisher:
        full = self.names.resolve(topic)
        return DdsPublisher(full, message_type, self.types, self._writer(message_type, f"rt{full}", qos))

    def create_subscription(
        self,
        message_type: str,
        topic: str,
        callback: Callable[[Message], None] | None = None,
        qos: QoSProfile = DEFAULT_QOS,
    ) -> DdsSubscription:
        full = self.names.resolve(topic)
        subscription = DdsSubscription(full, message_type, self.types, callback)
        subscription.reader = self._reader(message_type, f"rt{full}", qos, self._callbacks, subscription.receive)
        return subscription

    def create_timer(self, period_s: float, callback: Callable[[], None]) -> DdsTimer:
        return DdsTimer(self._callbacks, period_s, callback)

    def now(self) -> Message:
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        return self.types.make("builtin_interfaces/msg/Time", sec=seconds, nanosec=nanoseconds)

    def _writer(self, message_type: str, topic: str, qos: QoSProfile, user_data: str = "") -> Writer:
        kind = self._topic_types[message_type]
        data = f"typehash={self.types.hash(message_type)};{user_data}"
        return Writer(self._participant.entity, topic, kind, cyclone_qos(qos, data))

    def _reader(
        self,
        message_type: str,
        topic: str,
        qos: QoSProfile,
        waiter: Waiter,
        receive: Callable[[memoryview], None],
        user_data: str = "",
    ) -> Reader:
        kind = self._topic_types[message_type]
        data = f"typehash={self.types.hash(message_type)};{user_data}"
        return Reader(self._participant.entity, topic, kind, cyclone_qos(qos, data), waiter, receive)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._callbacks.close()
            self._participant.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

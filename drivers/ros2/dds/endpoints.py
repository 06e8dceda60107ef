"""Writers and readers of topics as bytes, and the API's publishers and subscriptions on top of them."""

import struct
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from cyclonedds.builtin import DcpsEndpoint, DcpsParticipant
from cyclonedds.core import DDSException
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from numpy.typing import NDArray

from robo_rl.core import DriverError

from ..api import Message
from ..message_types import HEADER_BYTES, Places, RosbagsTypes
from ..qos import QoSProfile
from . import library
from .waiter import Waiter, log_failure

TIME = struct.Struct("<iI")
"""Seconds and nanoseconds of a builtin_interfaces/msg/Time."""
_FOREVER = duration(infinite=True)
FAST_DDS = b"\x01\x0f"
"""First bytes of the identities of Fast DDS's participants and endpoints."""
_UNSIGNED = 2**64 - 1
"""Mask that makes handles unsigned; the binding returns some of them signed."""


def cyclone_qos(qos: QoSProfile, user_data: str, partition: str = "") -> Qos:
    """Return the QoS of an endpoint as ROS's middleware sets it, by default in the default partition."""
    history = Policy.History.KeepAll if qos.history == "keep_all" else Policy.History.KeepLast(qos.depth)
    policies: list[Any] = [
        Policy.Reliability.Reliable(_FOREVER) if qos.reliability == "reliable" else Policy.Reliability.BestEffort,
        history,
        Policy.DataRepresentation(use_cdrv0_representation=True, use_xcdrv2_representation=False),
        Policy.WriterDataLifecycle(autodispose=False),
    ]
    if qos.durability == "transient_local":
        service = Policy.DurabilityService(0, history, -1, -1, -1)
        policies += [Policy.Durability.TransientLocal, service]
    if qos.lifespan is not None:
        policies.append(Policy.Lifespan(duration(nanoseconds=round(qos.lifespan * 1e9))))
    if user_data:
        policies.append(Policy.Userdata(user_data.encode()))
    if partition:
        policies.append(Policy.Partition([partition]))
    return Qos(*policies)


def user_data(endpoint: DcpsEndpoint | DcpsParticipant | None, key: str) -> str | None:
    """Return the value of ``key`` in an endpoint's user data, ``key=value;...``; None if it is missing."""
    policy = endpoint.qos[Policy.Userdata] if endpoint is not None else None
    for part in bytes(policy.data).decode(errors="replace").split(";") if policy is not None else ():
        name, separator, value = part.partition("=")
        if separator and name == key:
            return value
    return None


def values_of(endpoints: Iterable[DcpsEndpoint], key: str) -> set[str]:
    """Return the values of ``key`` in the user data of the endpoints that have it."""
    return {value for endpoint in endpoints if (value := user_data(endpoint, key)) is not None}


def is_fast_dds(key: bytes) -> bool:
    """Return whether a participant or endpoint belongs to Fast DDS, whose services are incompatible with Cyclone's."""
    return key[:2] == FAST_DDS


class Writer:
    """Writer of bytes to a topic; thread-safe.

    Args:
        participant: participant of the node.
        topic: DDS name.
        kind: type of the topic.
        qos: quality of service for Cyclone.
    """

    def __init__(self, participant: DomainParticipant, topic: str, kind: Any, qos: Qos) -> None:
        self._kind = kind
        with library.QOS_CONVERSION:
            self._entity: DataWriter[Any] = DataWriter(participant, Topic(participant, topic, kind), qos)
        self.handle: int = self._entity._ref
        self.guid = library.guid(self.handle)

    @property
    def matched_count(self) -> int:
        """Number of readers that match this writer."""
        return library.call("dds_get_matched_subscriptions", self.handle, None, 0)

    def matched(self) -> list[int]:
        """Return the handles of the matching readers."""
        return sorted(handle & _UNSIGNED for handle in self._entity.matched_sub)

    def matched_endpoints(self) -> list[DcpsEndpoint]:
        """Return the matching readers as discovery reports them."""
        with library.QOS_CONVERSION:
            endpoints = [self._entity.get_matched_subscription_data(handle) for handle in self._entity.matched_sub]
        return [endpoint for endpoint in endpoints if endpoint is not None]

    def wait_for_all_acked(self, timeout_s: float) -> bool:
        """Wait for acknowledgements; see :class:`.api.Publisher`."""
        try:
            library.call("dds_wait_for_acks", self.handle, round(1e9 * timeout_s))
        except DDSException as error:
            if error.code != DDSException.DDS_RETCODE_TIMEOUT:
                raise
            return False
        return True

    def write(self, data: bytearray) -> None:
        """Send CDR bytes."""
        if library.RAW:
            library.write(self.handle, data)
        else:
            self._entity.write(self._kind.deserialize(bytes(data)))


class Reader:
    """Reader that passes the bytes of each sample to a function in a waiter's thread.

    Args:
        participant: participant of the node.
        topic: DDS name.
        kind: type of the topic.
        qos: quality of service for Cyclone.
        waiter: calls ``receive``.
        receive: called with the CDR bytes of one sample and its writer's handle.
    """

    def __init__(
        self,
        participant: DomainParticipant,
        topic: str,
        kind: Any,
        qos: Qos,
        waiter: Waiter,
        receive: Callable[[memoryview, int], None],
    ) -> None:
        with library.QOS_CONVERSION:
            self._entity: DataReader[Any] = DataReader(participant, Topic(participant, topic, kind), qos)
        self.handle: int = self._entity._ref
        self.guid = library.guid(self.handle)
        self._receive = receive
        self._taker = library.Taker(self.handle) if library.RAW else None
        waiter.attach(library.call("dds_create_readcondition", self.handle, library.ANY_SAMPLE), self._take)

    @property
    def matched_count(self) -> int:
        """Number of writers that match this reader."""
        return library.call("dds_get_matched_publications", self.handle, None, 0)

    def matched(self) -> list[int]:
        """Return the handles of the matching writers."""
        return sorted(handle & _UNSIGNED for handle in self._entity.matched_pub)

    def matched_endpoints(self) -> list[DcpsEndpoint]:
        """Return the matching writers as discovery reports them."""
        endpoints = [self.matched_endpoint(handle) for handle in self._entity.matched_pub]
        return [endpoint for endpoint in endpoints if endpoint is not None]

    def matched_endpoint(self, writer: int) -> DcpsEndpoint | None:
        """Return one writer, by its handle, as discovery reports it; None if it has ended."""
        with library.QOS_CONVERSION:
            return self._entity.get_matched_publication_data(writer)

    def _take(self) -> None:
        if self._taker is not None:
            samples = self._taker.take()
        else:
            batch = self._entity.take(library.Taker.BATCH)
            infos = [sample.sample_info for sample in batch]
            samples = [
                (memoryview(sample.raw), info.publication_handle)
                for sample, info in zip(batch, infos, strict=True)
                if info.valid_data
            ]
        for data, writer in samples:
            log_failure(self._receive, data, writer)


class DdsPublisher:
    """Publisher of a topic; see :class:`.api.Publisher`."""

    def __init__(self, topic: str, message_type: str, messages: RosbagsTypes, writer: Writer) -> None:
        self.topic = topic
        self.message_type = message_type
        self._messages = messages
        self._writer = writer

    @property
    def matched_count(self) -> int:
        return self._writer.matched_count

    def publish(self, message: Message) -> None:
        """Send ``message``.

        Raises:
            ConfigError: if it does not match the topic's type.
            DriverError: if it cannot be sent.
        """
        self.send(self._messages.serialize(self.message_type, message))

    def wait_for_all_acked(self, timeout_s: float) -> bool:
        return self._writer.wait_for_all_acked(timeout_s)

    def repeater(self, message: Message) -> "DdsRepeater":
        return DdsRepeater(
            self,
            self._messages.serialize(self.message_type, message),
            self._messages.places(self.message_type, message),
        )

    def send(self, data: bytearray) -> None:
        """Send the bytes of a message.

        Raises:
            DriverError: if they cannot be sent.
        """
        try:
            self._writer.write(data)
        except DDSException as error:
            raise DriverError(f"{self.topic}: {self.message_type} could not be sent: {error}") from error


class DdsRepeater:
    """Repeater that writes times and numbers into the bytes of a message; see :class:`.api.Repeater`.

    Args:
        publisher: sends the bytes.
        data: bytes of the message.
        places: offsets of times and numbers.
    """

    def __init__(self, publisher: DdsPublisher, data: bytearray, places: Places) -> None:
        self._publisher, self._data, self._times = publisher, data, places.times
        self._words = np.frombuffer(data, "<f8", (len(data) - HEADER_BYTES) // 8, HEADER_BYTES)
        self._numbers = np.array(places.numbers, np.intp) // 8

    def publish(self, stamp: Message, numbers: NDArray[np.float64]) -> None:
        if numbers.shape != self._numbers.shape:
            raise ValueError(f"{self._publisher.topic}: expected {self._numbers.size} numbers, got {numbers.shape}")
        self._words[self._numbers] = numbers
        for place in self._times:
            TIME.pack_into(self._data, HEADER_BYTES + place, stamp.sec, stamp.nanosec)
        self._publisher.send(self._data)


class DdsSubscription:
    """Subscription to a topic; see :class:`.api.Subscription`. Without a callback, messages are decoded when read."""

    def __init__(
        self, topic: str, name: str, messages: RosbagsTypes, callback: Callable[[Message], None] | None
    ) -> None:
        self.topic = topic
        self._name = name
        self._messages = messages
        self._callback = callback
        self._lock = threading.Lock()
        self._newest: tuple[memoryview, int] | None = None
        self._decoded: tuple[Message, int] | None = None
        self.reader: Reader | None = None

    @property
    def matched_count(self) -> int:
        return self.reader.matched_count if self.reader is not None else 0

    def receive(self, data: memoryview, writer: int) -> None:
        """Store the bytes of a message, or decode it for the callback."""
        received_ns = time.monotonic_ns()
        if self._callback is None:
            with self._lock:
                self._newest = data, received_ns
            return
        message = self._messages.deserialize(self._name, data)
        with self._lock:
            self._decoded = message, received_ns
        self._callback(message)

    def latest(self) -> tuple[Message, int] | None:
        with self._lock:
            newest, self._newest = self._newest, None
            if newest is not None:
                self._decoded = self._messages.deserialize(self._name, newest[0]), newest[1]
            return self._decoded

"""Factory of a node's writers and readers."""

import itertools
import threading
from collections.abc import Callable

from ..message_types import RosbagsTypes
from ..qos import QoSProfile
from . import library
from .endpoints import Reader, Writer, cyclone_qos
from .graph import GraphMonitor
from .participant import Participant
from .topic_types import TopicTypes
from .waiter import Waiter


class EndpointFactory:
    """Factory that creates writers and readers, keeps them open and announces them to the graph.

    Args:
        participant: participant of the node.
        types: message definitions.
        topic_types: DDS types.
        graph: graph monitor of the node.

    Attributes:
        types: message definitions.
    """

    def __init__(
        self, participant: Participant, types: RosbagsTypes, topic_types: TopicTypes, graph: GraphMonitor
    ) -> None:
        self.types = types
        self._participant, self._topic_types, self._graph = participant, topic_types, graph
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._open: list[Writer | Reader] = []  # an endpoint without references is deleted

    def writer(self, message_type: str, topic: str, qos: QoSProfile, user_data: str = "") -> Writer:
        """Return a new writer; ``topic`` is a DDS name."""
        policies = cyclone_qos(qos, self._user_data(message_type, user_data))
        with self._lock:
            writer = Writer(self._participant.entity, topic, self._topic_types[message_type], policies)
            self._open.append(writer)
        self._graph.add(writer)
        return writer

    def reader(
        self,
        message_type: str,
        topic: str,
        qos: QoSProfile,
        waiter: Waiter,
        receive: Callable[[memoryview, int], None],
        user_data: str = "",
        partition: str = "",
    ) -> Reader:
        """Return a new reader; ``topic`` is a DDS name."""
        policies = cyclone_qos(qos, self._user_data(message_type, user_data), partition)
        with self._lock:
            reader = Reader(self._participant.entity, topic, self._topic_types[message_type], policies, waiter, receive)
            self._open.append(reader)
        self._graph.add(reader)
        return reader

    def unique_id(self) -> str:
        """Return an identifier for a service client or server that is unique among all nodes."""
        identity = library.guid(self._participant.handle)[:12] + next(self._ids).to_bytes(4, "big")
        return ".".join(f"{byte:x}" for byte in identity)

    def advice(self) -> str:
        """Return the likely reason why a service does not answer; empty if none is known."""
        return self._graph.advice()

    def _user_data(self, message_type: str, more: str) -> str:
        return f"{more}typehash={self.types.hash(message_type)};"

"""Discovery of the ROS graph over DDS."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsParticipant,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.core import InstanceState
from cyclonedds.domain import DomainParticipant
from cyclonedds.qos import Policy, Qos

from ..api import Graph, Problem
from ..message_types import RosbagsTypes
from ..names import Names
from ..qos import QoSProfile
from . import library
from .endpoints import Reader, Writer, cyclone_qos, is_fast_dds
from .known_graph import KnownGraph
from .peers import Peer
from .topic_types import TopicTypes
from .waiter import Waiter

log = logging.getLogger(__name__)

INFO = "rmw_dds_common/msg/ParticipantEntitiesInfo"
TOPIC = "ros_discovery_info"
_WRITER_QOS = QoSProfile(depth=1, durability="transient_local")
_READER_QOS = QoSProfile(history="keep_all", durability="transient_local")
_TAKE = 64

_ANNOUNCE_NS = 10_000_000
"""Time within which new endpoints are announced together [ns]."""

MOST_REPORTED = 1000
"""Largest number of warnings of each kind. Keys of warnings are kept so that each is reported once, and other processes
determine the keys.
"""

_GID_BYTES = {"humble": 24}
"""Length of endpoint identifiers in distributions where it is not 16."""

_HEADER_BYTES = 4
"""Length of the CDR header."""


class GraphMonitor:
    """Monitor that announces the endpoints of one node, discovers those of others and logs new mismatches.

    Args:
        names: names of the node.
        participant: participant of the node.
        types: message definitions.
        topic_types: DDS types.
        waiter: waits for discovery messages.
    """

    def __init__(
        self,
        names: Names,
        participant: DomainParticipant,
        types: RosbagsTypes,
        topic_types: TopicTypes,
        waiter: Waiter,
    ) -> None:
        self._names = names
        self._types = types
        self._lock = threading.RLock()
        self._guid = library.guid(participant._ref)
        self._known = KnownGraph(names.full_name, self._guid)
        self._reported: set[tuple[str, str, str]] = set()
        self._warned: set[bytes | str] = set()
        self._elsewhere: dict[bytes, str] = {}
        kind = topic_types[INFO]
        self._waiter = waiter
        self._announcing = False
        # Jazzy's nodes would otherwise warn about each endpoint of this node
        type_hash = f"typehash={types.hash(INFO)};"
        self._writer = Writer(participant, TOPIC, kind, cyclone_qos(_WRITER_QOS, type_hash))
        self._announce()
        qos = Qos(*cyclone_qos(_READER_QOS, type_hash).policies, Policy.IgnoreLocal.Participant)
        self._reader = Reader(participant, TOPIC, kind, qos, waiter, self._receive_info)
        self._builtin: list[Any] = []
        for topic, handle in (
            (BuiltinTopicDcpsParticipant, self._receive_participant),
            (BuiltinTopicDcpsPublication, lambda sample: self._receive_endpoint(sample, writer=True)),
            (BuiltinTopicDcpsSubscription, lambda sample: self._receive_endpoint(sample, writer=False)),
        ):
            self._watch(BuiltinDataReader(participant, topic), waiter, handle)

    def _watch(self, reader: BuiltinDataReader, waiter: Waiter, handle: Callable[[Any], None]) -> None:
        self._builtin.append(reader)

        def take() -> None:
            with library.QOS_CONVERSION:
                samples = reader.take(_TAKE)
            for sample in samples:
                handle(sample)

        waiter.attach(library.call("dds_create_readcondition", reader._ref, library.ANY_SAMPLE), take)

    def add(self, endpoint: Writer | Reader) -> None:
        """Announce a new writer or reader of the node."""
        with self._lock:
            problems = self._known.add_own(endpoint.guid, isinstance(endpoint, Writer))
            if not self._announcing:
                self._announcing = True
                self._waiter.call_at(time.monotonic_ns() + _ANNOUNCE_NS, self._announce)
            self._report(problems)

    @property
    def graph(self) -> Graph:
        """Graph that discovery has found so far."""
        with self._lock:
            return self._known.snapshot()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Mismatches between the current endpoints."""
        with self._lock:
            return self._known.problems()

    def offered(self, topic: str) -> tuple[QoSProfile, ...]:
        """Return the profiles of a topic's writers; ``topic`` is a DDS name."""
        with self._lock:
            return self._known.offered(topic)

    def _gid(self, guid: bytes) -> dict[str, bytes]:
        return {"data": guid.ljust(_GID_BYTES.get(self._types.distribution, 16), b"\0")}

    def _announce(self) -> None:
        with self._lock:
            self._announcing = False
            node = {
                "node_namespace": self._names.namespace,
                "node_name": self._names.node,
                "reader_gid_seq": [self._gid(guid) for guid in self._known.own(writers=False)],
                "writer_gid_seq": [self._gid(guid) for guid in self._known.own(writers=True)],
            }
        info = self._types.make(INFO, gid=self._gid(self._guid), node_entities_info_seq=[node])
        self._writer.write(self._types.serialize(INFO, info))

    def _receive_info(self, data: memoryview, writer: int) -> None:
        humble, own = _is_humbles(data), self._types.distribution
        if humble != (own == "humble"):
            with self._lock:
                key = bytes(data[_HEADER_BYTES : _HEADER_BYTES + 16])
                if key not in self._elsewhere and len(self._elsewhere) < MOST_REPORTED:
                    self._elsewhere[key] = distribution = "humble" if humble else "jazzy"
                    log.warning("%s", _elsewhere_text(distribution, own))
            return
        info: Any = self._types.deserialize(INFO, data)
        key = bytes(info.gid.data)[:16]
        with self._lock:
            names = self._known.set_nodes(key, info)
            # Each run of a command-line tool is a new node with a hidden name. Such nodes are reported once.
            reported_key = "/_" if all("/_" in name for name in names) else key
            is_new = reported_key not in self._warned and len(self._warned) < MOST_REPORTED
            if names and is_fast_dds(key) and is_new:
                self._warned.add(reported_key)
                log.warning("%s", _fast_dds_text(names))

    def _receive_participant(self, sample: Any) -> None:
        with self._lock:
            self._known.set_participant(sample.key.bytes, _alive(sample))
            if not _alive(sample):
                self._elsewhere.pop(sample.key.bytes, None)

    def _receive_endpoint(self, sample: Any, writer: bool) -> None:
        with self._lock:
            peer = Peer.of(sample, writer) if _alive(sample) else None
            self._report(self._known.set_endpoint(sample.key.bytes, peer))

    def _report(self, problems: list[Problem]) -> None:
        """Log new problems."""
        for problem in problems:
            key = problem.topic, problem.local, problem.remote
            if key not in self._reported and len(self._reported) < MOST_REPORTED:
                self._reported.add(key)
                log.warning("%s", problem.text)

    def advice(self) -> str:
        """Return the likely reason why a service does not answer; empty if none is known."""
        unanswering = self.graph.unanswering
        with self._lock:
            distributions = sorted(set(self._elsewhere.values()))
        texts = [_elsewhere_text(distribution, self._types.distribution) for distribution in distributions]
        return "".join(f". {text}" for text in [*texts, *([_fast_dds_text(unanswering)] if unanswering else [])])


def _alive(sample: Any) -> bool:
    return bool(sample.sample_info.instance_state == InstanceState.Alive)


def _fast_dds_text(nodes: Any) -> str:
    return (
        f"On Fast DDS (rmw_fastrtps): {', '.join(nodes)}. Topics work with it, services, actions "
        "and parameters do not. Set RMW_IMPLEMENTATION=rmw_cyclonedds_cpp on the robot, or source its ROS 2 here"
    )


def _is_humbles(data: memoryview) -> bool:
    """Return whether a message of TOPIC comes from Humble, whose participant identifiers end with 8 zero bytes.

    In later distributions, the same bytes hold the number of nodes and the length of the first node's namespace, if
    any.
    """
    body = data[_HEADER_BYTES:]
    return len(body) >= 28 and bytes(body[16:24]) == bytes(8)


def _elsewhere_text(other: str, own: str) -> str:
    return (
        f"a node has the message definitions of ROS 2 {other.title()}, and this process those of {own.title()}: some "
        f"topics and services differ, and it is not listed. Set ROS_DISTRO={other} here"
    )

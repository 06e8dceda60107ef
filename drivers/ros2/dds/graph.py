"""The ROS graph over DDS: says which node owns which endpoints, hears it of others, and finds what does not fit."""

import logging
import threading
import time
from collections import defaultdict
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
from .peers import Peer, mismatch, ros_topic_name
from .topic_types import TopicTypes
from .waiter import Waiter

log = logging.getLogger(__name__)

INFO = "rmw_dds_common/msg/ParticipantEntitiesInfo"
TOPIC = "ros_discovery_info"
_WRITER_QOS = QoSProfile(depth=1, durability="transient_local")
_READER_QOS = QoSProfile(history="keep_all", durability="transient_local")
_TAKE = 64

_ANNOUNCE_NS = 10_000_000
"""Endpoints that are made within this time are told of together."""

_GID_BYTES = {"humble": 24}
"""Where it is not 16."""

_HEADER_BYTES = 4
"""Of CDR."""


class GraphMonitor:
    """The graph as one node sees it.

    Args:
        names: of the node.
        participant: of the node.
        types: message definitions.
        topic_types: DDS types.
        waiter: hears of changes.
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
        self._own: dict[bytes, bool] = {}
        self._peers: dict[bytes, Peer] = {}
        self._participants: set[bytes] = {self._guid}
        self._nodes: dict[bytes, Any] = {}
        self._reported: set[tuple[str, str, str]] = set()
        self._warned: set[bytes | str] = set()
        self._elsewhere: dict[bytes, str] = {}
        kind = topic_types[INFO]
        self._waiter = waiter
        self._announcing = False
        type_hash = f"typehash={types.hash(INFO)};"  # without it Jazzy's nodes warn of each of ours
        self._writer = Writer(participant, TOPIC, kind, cyclone_qos(_WRITER_QOS, type_hash))
        self._announce()
        qos = Qos(*cyclone_qos(_READER_QOS, type_hash).policies, Policy.IgnoreLocal.Participant)
        self._reader = Reader(participant, TOPIC, kind, qos, waiter, self._hear_info)
        self._builtin: list[Any] = []
        for topic, handle in (
            (BuiltinTopicDcpsParticipant, self._hear_participant),
            (BuiltinTopicDcpsPublication, lambda sample: self._hear_endpoint(sample, writer=True)),
            (BuiltinTopicDcpsSubscription, lambda sample: self._hear_endpoint(sample, writer=False)),
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
        """Tell everybody that the node has a writer or reader more."""
        with self._lock:
            self._own[endpoint.guid] = isinstance(endpoint, Writer)
            if not self._announcing:
                self._announcing = True
                self._waiter.call_at(time.monotonic_ns() + _ANNOUNCE_NS, self._announce)
            added = self._peers.get(endpoint.guid)
            if added is not None:
                self._look_for_problems(added)

    @property
    def graph(self) -> Graph:
        """Who is there now."""
        with self._lock:
            topics: dict[str, set[str]] = defaultdict(set)
            services: dict[str, set[str]] = defaultdict(set)
            for peer in self._peers.values():
                name = ros_topic_name(peer.topic)
                if peer.topic.startswith("rt/"):
                    topics[name].add(peer.shown_type)
                elif peer.topic.startswith(("rq/", "rr/")):
                    services[name].add(peer.shown_type.removesuffix("_Request").removesuffix("_Response"))
            return Graph(
                nodes=tuple(
                    sorted({self._names.full_name, *(n for key in self._nodes for n in self._node_names(key))})
                ),
                topics={name: tuple(sorted(found)) for name, found in sorted(topics.items())},
                services={name: tuple(sorted(found)) for name, found in sorted(services.items())},
                unanswering=tuple(sorted(n for key in self._nodes if is_fast_dds(key) for n in self._node_names(key))),
            )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What does not fit between endpoints that are there now."""
        with self._lock:
            found = [
                problem
                for guid in self._own
                if (ours := self._peers.get(guid)) is not None
                for problem in self._problems_of(ours)
            ]
            return tuple(dict.fromkeys(found))

    def offered(self, topic: str) -> tuple[QoSProfile, ...]:
        """Return the profiles of those that write on a topic, by its DDS name."""
        with self._lock:
            peers = [peer.profile for peer in self._peers.values() if peer.writer and peer.topic == topic]
        return tuple(
            QoSProfile(
                reliability="reliable" if profile.reliable else "best_effort",
                durability="transient_local" if profile.durability else "volatile",
            )
            for profile in peers
        )

    def _node_names(self, participant: bytes) -> list[str]:
        if participant not in self._participants:
            return []
        return _names_in(self._nodes[participant])

    def _node_of(self, peer: Peer) -> str:
        """Return the name of the node that owns an endpoint, or nothing where it is not known."""
        info = self._nodes.get(peer.participant)
        for node in info.node_entities_info_seq if info is not None else ():
            owned = node.writer_gid_seq if peer.writer else node.reader_gid_seq
            if any(bytes(gid.data)[:16] == peer.key for gid in owned):
                return f"{node.node_namespace.rstrip('/')}/{node.node_name}"
        return ""

    def _gid(self, guid: bytes) -> dict[str, bytes]:
        return {"data": guid.ljust(_GID_BYTES.get(self._types.distribution, 16), b"\0")}

    def _announce(self) -> None:
        with self._lock:
            self._announcing = False
            node = {
                "node_namespace": self._names.namespace,
                "node_name": self._names.node,
                "reader_gid_seq": [self._gid(guid) for guid, writer in self._own.items() if not writer],
                "writer_gid_seq": [self._gid(guid) for guid, writer in self._own.items() if writer],
            }
        info = self._types.make(INFO, gid=self._gid(self._guid), node_entities_info_seq=[node])
        self._writer.write(self._types.serialize(INFO, info))

    def _hear_info(self, data: memoryview, writer: int) -> None:
        humble, own = _is_humbles(data), self._types.distribution
        if humble != (own == "humble"):
            with self._lock:
                key = bytes(data[_HEADER_BYTES : _HEADER_BYTES + 16])
                if key not in self._elsewhere:
                    self._elsewhere[key] = other = "humble" if humble else "jazzy"
                    log.warning("%s", _elsewhere_text(other, own))
            return
        info: Any = self._types.deserialize(INFO, data)
        key = bytes(info.gid.data)[:16]
        with self._lock:
            self._nodes[key] = info
            names = _names_in(info)
            # Each run of a tool of the command line is a new node with a hidden name: these are told of once.
            who = "/_" if all("/_" in name for name in names) else key
            if names and is_fast_dds(key) and who not in self._warned:
                self._warned.add(who)
                log.warning("%s", _fast_dds_text(names))

    def _hear_participant(self, sample: Any) -> None:
        with self._lock:
            if _alive(sample):
                self._participants.add(sample.key.bytes)
            else:
                self._participants.discard(sample.key.bytes)
                self._nodes.pop(sample.key.bytes, None)
                self._elsewhere.pop(sample.key.bytes, None)

    def _hear_endpoint(self, sample: Any, writer: bool) -> None:
        with self._lock:
            if not _alive(sample):
                self._peers.pop(sample.key.bytes, None)
                return
            peer = Peer.of(sample, writer)
            self._peers[peer.key] = peer
            self._look_for_problems(peer)

    def _look_for_problems(self, peer: Peer) -> None:
        """Log every new problem that an endpoint takes part in."""
        if peer.key in self._own:
            found = self._problems_of(peer)
        else:
            ours = [self._peers[guid] for guid in self._own if guid in self._peers]
            found = [problem for own in ours if (problem := self._compare(own, peer)) is not None]
        for problem in found:
            what = problem.topic, problem.ours, problem.theirs
            if what not in self._reported:
                self._reported.add(what)
                log.warning("%s", problem.text)

    def _problems_of(self, ours: Peer) -> list[Problem]:
        return [problem for peer in self._peers.values() if (problem := self._compare(ours, peer)) is not None]

    def _compare(self, ours: Peer, theirs: Peer) -> Problem | None:
        if ours.topic != theirs.topic or ours.writer == theirs.writer:
            return None
        problem = mismatch(ours, theirs, self._node_of(theirs))
        if problem is None or any(mismatch(also, theirs, "") is None for also in self._beside(ours)):
            return None
        return None if any(mismatch(ours, also, "") is None for also in self._beside(theirs)) else problem

    def _beside(self, peer: Peer) -> list[Peer]:
        """Return a participant's other endpoints of a topic: with several profiles it is heard from everybody."""
        found = [other for other in self._peers.values() if other.participant == peer.participant]
        return [each for each in found if (each.topic, each.writer) == (peer.topic, peer.writer) and each != peer]

    def advice(self) -> str:
        """Return what may be the reason that a service does not answer, or nothing."""
        unanswering = self.graph.unanswering
        with self._lock:
            others = sorted(set(self._elsewhere.values()))
        texts = [_elsewhere_text(other, self._types.distribution) for other in others]
        return "".join(f". {text}" for text in [*texts, *([_fast_dds_text(unanswering)] if unanswering else [])])


def _names_in(info: Any) -> list[str]:
    return [f"{node.node_namespace.rstrip('/')}/{node.node_name}" for node in info.node_entities_info_seq]


def _alive(sample: Any) -> bool:
    return bool(sample.sample_info.instance_state == InstanceState.Alive)


def _fast_dds_text(nodes: Any) -> str:
    return (
        f"On Fast DDS (rmw_fastrtps): {', '.join(nodes)}. Topics work with it, services, actions "
        "and parameters do not. Set RMW_IMPLEMENTATION=rmw_cyclonedds_cpp on the robot, or source its ROS 2 here"
    )


def _is_humbles(data: memoryview) -> bool:
    """Return whether a message of TOPIC is of Humble, which identifies participants by 16 bytes and 8 that are zero.

    Later distributions have the number of nodes there, and the length of the first one's namespace where there is one.
    """
    body = data[_HEADER_BYTES:]
    return len(body) >= 28 and bytes(body[16:24]) == bytes(8)


def _elsewhere_text(other: str, own: str) -> str:
    return (
        f"a node has the message definitions of ROS 2 {other.title()}, and this process those of {own.title()}: some "
        f"topics and services differ, and it is not listed. Set ROS_DISTRO={other} here"
    )

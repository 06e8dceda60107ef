"""The part of the ROS graph that discovery has found so far."""

from collections import defaultdict
from typing import Any

from ..api import Graph, Problem
from ..qos import QoSProfile
from .endpoints import is_fast_dds
from .peers import Peer, mismatch, ros_topic_name


class KnownGraph:
    """Participants, nodes and endpoints, and the problems between them. For one thread at a time.

    Args:
        own_name: fully qualified name of this node.
        participant: 16 bytes that identify its participant.
    """

    def __init__(self, own_name: str, participant: bytes) -> None:
        self._own_name = own_name
        self._own: dict[bytes, bool] = {}
        self._peers: dict[bytes, Peer] = {}
        self._participants: set[bytes] = {participant}
        self._nodes: dict[bytes, Any] = {}

    def add_own(self, guid: bytes, writer: bool) -> list[Problem]:
        """Add an endpoint of this node; return its problems, if discovery has found it already."""
        self._own[guid] = writer
        return self.problems_of(self._peers[guid]) if guid in self._peers else []

    def own(self, writers: bool) -> list[bytes]:
        """Return the writers, or the readers, of this node."""
        return [guid for guid, writer in self._own.items() if writer == writers]

    def set_endpoint(self, key: bytes, peer: Peer | None) -> list[Problem]:
        """Add an endpoint of any node, or remove one that has ended; return the problems that it takes part in."""
        if peer is None:
            self._peers.pop(key, None)
            return []
        self._peers[key] = peer
        return self.problems_of(peer)

    def set_participant(self, key: bytes, alive: bool) -> None:
        """Add a participant, or remove one that has ended, with its nodes."""
        if alive:
            self._participants.add(key)
        else:
            self._participants.discard(key)
            self._nodes.pop(key, None)

    def set_nodes(self, participant: bytes, info: Any) -> list[str]:
        """Set the nodes of a participant, a ParticipantEntitiesInfo; return their names."""
        self._nodes[participant] = info
        return [_name_of(node) for node in info.node_entities_info_seq]

    def snapshot(self) -> Graph:
        """Return the graph by ROS names."""
        topics: dict[str, set[str]] = defaultdict(set)
        services: dict[str, set[str]] = defaultdict(set)
        for peer in self._peers.values():
            name = ros_topic_name(peer.topic)
            if peer.topic.startswith("rt/"):
                topics[name].add(peer.shown_type)
            elif peer.topic.startswith(("rq/", "rr/")):
                services[name].add(peer.shown_type.removesuffix("_Request").removesuffix("_Response"))
        named = [
            (key, _name_of(node))
            for key, info in self._nodes.items()
            if key in self._participants
            for node in info.node_entities_info_seq
        ]
        return Graph(
            nodes=tuple(sorted({self._own_name, *(name for _, name in named)})),
            topics={name: tuple(sorted(found)) for name, found in sorted(topics.items())},
            services={name: tuple(sorted(found)) for name, found in sorted(services.items())},
            unanswering=tuple(sorted(name for key, name in named if is_fast_dds(key))),
        )

    def offered(self, topic: str) -> tuple[QoSProfile, ...]:
        """Return the profiles of the writers of a topic, by its DDS name."""
        return tuple(
            QoSProfile(
                reliability="reliable" if peer.profile.reliable else "best_effort",
                durability="transient_local" if peer.profile.durability else "volatile",
            )
            for peer in self._peers.values()
            if peer.writer and peer.topic == topic
        )

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems between endpoints of this node and others."""
        found = [problem for ours in self._own_peers() for problem in self.problems_of(ours)]
        return tuple(dict.fromkeys(found))

    def problems_of(self, peer: Peer) -> list[Problem]:
        """Return the problems that an endpoint, of this node or another, takes part in."""
        pairs = (
            [(peer, theirs) for theirs in self._peers.values()]
            if peer.key in self._own
            else [(ours, peer) for ours in self._own_peers()]
        )
        return [problem for ours, theirs in pairs if (problem := self._compare(ours, theirs)) is not None]

    def _own_peers(self) -> list[Peer]:
        return [self._peers[guid] for guid in self._own if guid in self._peers]

    def _compare(self, ours: Peer, theirs: Peer) -> Problem | None:
        if ours.topic != theirs.topic or ours.writer == theirs.writer:
            return None
        problem = mismatch(ours, theirs, self._node_of(theirs))
        if problem is None or any(mismatch(also, theirs, "") is None for also in self._beside(ours)):
            return None
        return None if any(mismatch(ours, also, "") is None for also in self._beside(theirs)) else problem

    def _beside(self, peer: Peer) -> list[Peer]:
        """Return a participant's other endpoints of a topic: with several profiles every other end hears it."""
        found = [other for other in self._peers.values() if other.participant == peer.participant]
        return [each for each in found if (each.topic, each.writer) == (peer.topic, peer.writer) and each != peer]

    def _node_of(self, peer: Peer) -> str:
        """Return the name of the node that owns an endpoint, or nothing where it is not known."""
        info = self._nodes.get(peer.participant)
        for node in info.node_entities_info_seq if info is not None else ():
            owned = node.writer_gid_seq if peer.writer else node.reader_gid_seq
            if any(bytes(gid.data)[:16] == peer.key for gid in owned):
                return _name_of(node)
        return ""


def _name_of(node: Any) -> str:
    return f"{node.node_namespace.rstrip('/')}/{node.node_name}"

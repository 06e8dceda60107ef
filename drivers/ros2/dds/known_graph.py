"""Part of the ROS graph that discovery has found so far."""

from collections import defaultdict
from typing import Any

from ..api import Graph, Problem
from ..qos import QoSProfile
from .endpoints import is_fast_dds
from .peers import Peer, mismatch, ros_topic_name

MOST_UNDISCOVERED = 256
"""Largest number of undiscovered participants whose nodes are kept. The oldest are dropped first, because any process
can announce nodes of participants that never appear.
"""


class KnownGraph:
    """Participants, nodes and endpoints, and the mismatches between them; not thread-safe.

    Args:
        own_name: fully qualified name of this node.
        participant: identity of its participant (16 bytes).
    """

    def __init__(self, own_name: str, participant: bytes) -> None:
        self._own_name = own_name
        self._own: dict[bytes, bool] = {}
        self._peers: dict[bytes, Peer] = {}
        self._participants: set[bytes] = {participant}
        self._nodes: dict[bytes, Any] = {}

    def add_own(self, guid: bytes, writer: bool) -> list[Problem]:
        """Add an endpoint of this node; return its problems if discovery has already found it."""
        self._own[guid] = writer
        return self.problems_of(self._peers[guid]) if guid in self._peers else []

    def own(self, writers: bool) -> list[bytes]:
        """Return the writers, or the readers, of this node."""
        return [guid for guid, writer in self._own.items() if writer == writers]

    def set_endpoint(self, key: bytes, peer: Peer | None) -> list[Problem]:
        """Set an endpoint of any node, or remove it (None); return the problems that involve it."""
        if peer is None:
            self._peers.pop(key, None)
            return []
        self._peers[key] = peer
        return self.problems_of(peer)

    def set_participant(self, key: bytes, alive: bool) -> None:
        """Add a participant, or remove one that has ended together with its nodes."""
        if alive:
            self._participants.add(key)
        else:
            self._participants.discard(key)
            self._nodes.pop(key, None)

    def set_nodes(self, participant: bytes, info: Any) -> list[str]:
        """Set the nodes of a participant from a ParticipantEntitiesInfo; return their names."""
        self._nodes.pop(participant, None)
        self._nodes[participant] = info
        undiscovered = [key for key in self._nodes if key not in self._participants]
        for key in undiscovered[:-MOST_UNDISCOVERED]:
            del self._nodes[key]
        return [_name_of(node) for node in info.node_entities_info_seq]

    def snapshot(self) -> Graph:
        """Return the graph with ROS names."""
        topics: dict[str, set[str]] = defaultdict(set)
        services: dict[str, set[str]] = defaultdict(set)
        for peer in self._peers.values():
            name = ros_topic_name(peer.topic)
            if peer.topic.startswith("rt/"):
                topics[name].add(peer.display_type)
            elif peer.topic.startswith(("rq/", "rr/")):
                services[name].add(peer.display_type.removesuffix("_Request").removesuffix("_Response"))
        nodes = [
            (key, _name_of(node))
            for key, info in self._nodes.items()
            if key in self._participants
            for node in info.node_entities_info_seq
        ]
        return Graph(
            nodes=tuple(sorted({self._own_name, *(name for _, name in nodes)})),
            topics={name: tuple(sorted(types)) for name, types in sorted(topics.items())},
            services={name: tuple(sorted(types)) for name, types in sorted(services.items())},
            unanswering=tuple(sorted(name for key, name in nodes if is_fast_dds(key))),
        )

    def offered(self, topic: str) -> tuple[QoSProfile, ...]:
        """Return the profiles of a topic's writers; ``topic`` is a DDS name."""
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
        problems = [problem for local in self._own_peers() for problem in self.problems_of(local)]
        return tuple(dict.fromkeys(problems))

    def problems_of(self, peer: Peer) -> list[Problem]:
        """Return the problems that involve an endpoint of this node or another."""
        pairs = (
            [(peer, remote) for remote in self._peers.values()]
            if peer.key in self._own
            else [(local, peer) for local in self._own_peers()]
        )
        return [problem for local, remote in pairs if (problem := self._compare(local, remote)) is not None]

    def _own_peers(self) -> list[Peer]:
        return [self._peers[guid] for guid in self._own if guid in self._peers]

    def _compare(self, local: Peer, remote: Peer) -> Problem | None:
        if local.topic != remote.topic or local.writer == remote.writer:
            return None
        problem = mismatch(local, remote, self._node_of(remote))
        if problem is None or any(mismatch(sibling, remote, "") is None for sibling in self._siblings_of(local)):
            return None
        return None if any(mismatch(local, sibling, "") is None for sibling in self._siblings_of(remote)) else problem

    def _siblings_of(self, peer: Peer) -> list[Peer]:
        """Return a participant's other endpoints of a topic. Only one of them needs to match the other end."""
        endpoints = [endpoint for endpoint in self._peers.values() if endpoint.participant == peer.participant]
        return [
            endpoint
            for endpoint in endpoints
            if (endpoint.topic, endpoint.writer) == (peer.topic, peer.writer) and endpoint != peer
        ]

    def _node_of(self, peer: Peer) -> str:
        """Return the name of the node that owns an endpoint; empty if it is unknown."""
        info = self._nodes.get(peer.participant)
        for node in info.node_entities_info_seq if info is not None else ():
            owned = node.writer_gid_seq if peer.writer else node.reader_gid_seq
            if any(bytes(gid.data)[:16] == peer.key for gid in owned):
                return _name_of(node)
        return ""


def _name_of(node: Any) -> str:
    return f"{node.node_namespace.rstrip('/')}/{node.node_name}"

"""Endpoints of this node and of others, and the mismatches between them."""

from dataclasses import dataclass

from cyclonedds.builtin import DcpsEndpoint
from cyclonedds.qos import Policy, Qos
from cyclonedds.util import duration

from ..api import Problem
from .endpoints import user_data
from .topic_types import ros_type_name

_FOREVER = duration(infinite=True)
_LIVELINESS = (Policy.Liveliness.Automatic, Policy.Liveliness.ManualByParticipant, Policy.Liveliness.ManualByTopic)
_LIVELINESS_NAMES = ("automatic", "manual by participant", "manual by topic")


@dataclass(frozen=True)
class Profile:
    """Part of an endpoint's quality of service that decides whether it matches another endpoint.

    Attributes:
        reliable: whether lost messages are repeated.
        durability: 0 volatile, 1 transient local, 2 transient, 3 persistent.
        deadline_ns: longest time between messages [ns].
        liveliness: 0 automatic, 1 manual by participant, 2 manual by topic.
        lease_ns: time after which a silent writer counts as dead [ns].
    """

    reliable: bool
    durability: int
    deadline_ns: int
    liveliness: int
    lease_ns: int

    @classmethod
    def of(cls, qos: Qos) -> "Profile":
        """Return the profile of an endpoint's QoS; missing policies have DDS's defaults."""
        durability, deadline, liveliness = qos[Policy.Durability], qos[Policy.Deadline], qos[Policy.Liveliness]
        levels = (
            Policy.Durability.Volatile,
            Policy.Durability.TransientLocal,
            Policy.Durability.Transient,
            Policy.Durability.Persistent,
        )
        return cls(
            reliable=isinstance(qos[Policy.Reliability], Policy.Reliability.Reliable),
            durability=levels.index(durability) if durability is not None else 0,
            deadline_ns=deadline.deadline if deadline is not None else _FOREVER,
            liveliness=_LIVELINESS.index(type(liveliness)) if liveliness is not None else 0,
            lease_ns=liveliness.lease_duration if liveliness is not None else _FOREVER,
        )

    def serves(self, requested: "Profile") -> bool:
        """Return whether a writer of this profile matches a reader that requests ``requested``."""
        return (
            self.reliable >= requested.reliable
            and self.durability >= requested.durability
            and self.deadline_ns <= requested.deadline_ns
            and self.liveliness >= requested.liveliness
            and self.lease_ns <= requested.lease_ns
        )

    def __str__(self) -> str:
        parts = [
            "reliable" if self.reliable else "best_effort",
            ("volatile", "transient_local", "transient", "persistent")[self.durability],
        ]
        if self.deadline_ns != _FOREVER:
            parts.append(f"deadline {self.deadline_ns / 1e6:g} ms")
        if self.liveliness:
            parts.append(f"liveliness {_LIVELINESS_NAMES[self.liveliness]}")
        if self.lease_ns != _FOREVER:
            parts.append(f"lease {self.lease_ns / 1e6:g} ms")
        return ", ".join(parts)


@dataclass(frozen=True)
class Peer:
    """Writer or reader.

    Attributes:
        key: identity (16 bytes).
        participant: identity of its participant (16 bytes).
        writer: whether it is a writer.
        topic: DDS name of the topic.
        type_name: DDS name of the type.
        type_hash: hash of the type's definition; None if it is not published.
        profile: quality of service.
    """

    key: bytes
    participant: bytes
    writer: bool
    topic: str
    type_name: str
    type_hash: str | None
    profile: Profile

    @classmethod
    def of(cls, sample: DcpsEndpoint, writer: bool) -> "Peer":
        """Return the endpoint that discovery reports in ``sample``."""
        return cls(
            key=sample.key.bytes,
            participant=sample.participant_key.bytes,
            writer=writer,
            topic=sample.topic_name,
            type_name=sample.type_name,
            type_hash=user_data(sample, "typehash"),
            profile=Profile.of(sample.qos),
        )

    @property
    def display_type(self) -> str:
        """ROS name of the type, or its DDS name if it is not a ROS type."""
        return ros_type_name(self.type_name) or self.type_name


def ros_topic_name(topic: str) -> str:
    """Return the ROS name of a topic or service."""
    prefix, separator, name = topic.partition("/")
    ending = {"rq": "Request", "rr": "Reply"}.get(prefix, "")
    return f"/{name.removesuffix(ending)}" if separator and prefix in ("rt", "rq", "rr") else topic


def mismatch(local: Peer, remote: Peer, node: str) -> Problem | None:
    """Return why a writer and a reader of the same topic do not match, or None if they do."""
    topic = ros_topic_name(local.topic)
    whose = node or "another node"
    if local.type_name != remote.type_name:
        text = f"{topic} has type {local.display_type} here and {remote.display_type} at {whose}: change one of them"
        return Problem(topic, local.display_type, remote.display_type, node, text)
    if local.type_hash and remote.type_hash and local.type_hash != remote.type_hash:
        text = (
            f"{topic}: {local.display_type} is defined otherwise at {whose} (here {local.type_hash}, there "
            f"{remote.type_hash}): use the same definition, or set ROS_DISTRO to the robot's distribution"
        )
        return Problem(topic, local.type_hash, remote.type_hash, node, text)
    offered, requested = (local, remote) if local.writer else (remote, local)
    if not offered.profile.serves(requested.profile):
        kinds = ("published", "subscribed to") if local.writer else ("subscribed to", "published")
        text = (
            f"{topic} ({local.display_type}) is {kinds[0]} here with [{local.profile}] and {kinds[1]} by {whose} with "
            f"[{remote.profile}]: what is published does not serve what is asked for; change one of the profiles"
        )
        return Problem(topic, str(local.profile), str(remote.profile), node, text)
    return None

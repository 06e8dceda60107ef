"""Types and profiles that do not fit, found in rclpy's graph."""

from typing import Any

from rclpy.qos import DurabilityPolicy, ReliabilityPolicy

from ..api import Problem
from ..qos import QoSProfile
from .endpoints import RclpyPublisher, RclpySubscription


def find_problems(
    node: Any, publishers: list[RclpyPublisher], subscriptions: list[RclpySubscription]
) -> tuple[Problem, ...]:
    """Return what does not fit between a node's publishers and subscriptions and those of others."""
    found: dict[Problem, None] = {}
    for publisher in publishers:
        for other in node.get_subscriptions_info_by_topic(publisher.topic):
            _compare(found, publisher, other, publisher.qos, _profile(other))
    for subscription in subscriptions:
        for other in node.get_publishers_info_by_topic(subscription.topic):
            _compare(found, subscription, other, _profile(other), subscription.qos)
    return tuple(found)


def _profile(other: Any) -> QoSProfile:
    reliable = other.qos_profile.reliability == ReliabilityPolicy.RELIABLE
    latched = other.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
    return QoSProfile(
        reliability="reliable" if reliable else "best_effort", durability="transient_local" if latched else "volatile"
    )


def _compare(
    found: dict[Problem, None],
    ours: RclpyPublisher | RclpySubscription,
    other: Any,
    offered: QoSProfile,
    asked: QoSProfile,
) -> None:
    node = f"{other.node_namespace.rstrip('/')}/{other.node_name}"
    if other.topic_type != ours.message_type:
        text = f"{ours.topic} has type {ours.message_type} here and {other.topic_type} at {node}: change one of them"
        found[Problem(ours.topic, ours.message_type, other.topic_type, node, text)] = None
    elif not offered.serves(asked):
        text = (
            f"{ours.topic} ({ours.message_type}) is published with [{_short(offered)}] and subscribed to with "
            f"[{_short(asked)}], one of them by {node}: change one of the profiles"
        )
        mine, theirs = (offered, asked) if isinstance(ours, RclpyPublisher) else (asked, offered)
        found[Problem(ours.topic, _short(mine), _short(theirs), node, text)] = None


def _short(qos: QoSProfile) -> str:
    return f"{qos.reliability}, {qos.durability}"

"""Mismatches of types and profiles in rclpy's graph."""

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
    # With several profiles a node hears a topic from everybody, or is heard by everybody.
    for publisher in publishers:
        others = node.get_subscriptions_info_by_topic(publisher.topic)
        alike = [other for other in others if other.topic_type == publisher.message_type]
        served = {_node_of(other) for other in alike if publisher.qos.serves(profile_of(other))}
        for other in others:
            if _node_of(other) not in served:
                _compare(found, publisher, other, publisher.qos, profile_of(other))
    for subscription in subscriptions:
        beside = [also for also in subscriptions if also.topic == subscription.topic and also is not subscription]
        for other in node.get_publishers_info_by_topic(subscription.topic):
            offered = profile_of(other)
            alike = [also.qos for also in beside if also.message_type == other.topic_type]
            if not any(offered.serves(asked) for asked in alike):
                _compare(found, subscription, other, offered, subscription.qos)
    return tuple(found)


def _node_of(other: Any) -> str:
    return f"{other.node_namespace.rstrip('/')}/{other.node_name}"


def profile_of(other: Any) -> QoSProfile:
    """Return the reliability and durability of an endpoint in rclpy's graph."""
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
    node = _node_of(other)
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

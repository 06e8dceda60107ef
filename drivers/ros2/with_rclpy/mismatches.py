"""Mismatches of types and profiles in rclpy's graph."""

from typing import Any

from rclpy.qos import DurabilityPolicy, ReliabilityPolicy

from ..api import Problem
from ..qos import QoSProfile
from .endpoints import RclpyPublisher, RclpySubscription


def find_problems(
    node: Any, publishers: list[RclpyPublisher], subscriptions: list[RclpySubscription]
) -> tuple[Problem, ...]:
    """Return the mismatches between a node's publishers and subscriptions and those of other nodes."""
    problems: dict[Problem, None] = {}
    # A node with several profiles on a topic may communicate with every other node through one of them.
    for publisher in publishers:
        endpoints = node.get_subscriptions_info_by_topic(publisher.topic)
        alike = [endpoint for endpoint in endpoints if endpoint.topic_type == publisher.message_type]
        served = {_node_of(endpoint) for endpoint in alike if publisher.qos.serves(profile_of(endpoint))}
        for endpoint in endpoints:
            if _node_of(endpoint) not in served:
                _compare(problems, publisher, endpoint, publisher.qos, profile_of(endpoint))
    for subscription in subscriptions:
        siblings = [
            sibling for sibling in subscriptions if sibling.topic == subscription.topic and sibling is not subscription
        ]
        for endpoint in node.get_publishers_info_by_topic(subscription.topic):
            offered = profile_of(endpoint)
            alike = [sibling.qos for sibling in siblings if sibling.message_type == endpoint.topic_type]
            if not any(offered.serves(requested) for requested in alike):
                _compare(problems, subscription, endpoint, offered, subscription.qos)
    return tuple(problems)


def _node_of(endpoint: Any) -> str:
    return f"{endpoint.node_namespace.rstrip('/')}/{endpoint.node_name}"


def profile_of(other: Any) -> QoSProfile:
    """Return the reliability and durability of an endpoint in rclpy's graph."""
    reliable = other.qos_profile.reliability == ReliabilityPolicy.RELIABLE
    latched = other.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
    return QoSProfile(
        reliability="reliable" if reliable else "best_effort", durability="transient_local" if latched else "volatile"
    )


def _compare(
    problems: dict[Problem, None],
    local: RclpyPublisher | RclpySubscription,
    endpoint: Any,
    offered: QoSProfile,
    requested: QoSProfile,
) -> None:
    node = _node_of(endpoint)
    if endpoint.topic_type != local.message_type:
        text = (
            f"{local.topic} has type {local.message_type} here and {endpoint.topic_type} at {node}: change one of them"
        )
        problems[Problem(local.topic, local.message_type, endpoint.topic_type, node, text)] = None
    elif not offered.serves(requested):
        text = (
            f"{local.topic} ({local.message_type}) is published with [{_short(offered)}] and subscribed to with "
            f"[{_short(requested)}], one of them by {node}: change one of the profiles"
        )
        local_profile, remote_profile = (
            (offered, requested) if isinstance(local, RclpyPublisher) else (requested, offered)
        )
        problems[Problem(local.topic, _short(local_profile), _short(remote_profile), node, text)] = None


def _short(qos: QoSProfile) -> str:
    return f"{qos.reliability}, {qos.durability}"

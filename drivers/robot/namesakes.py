"""Names in the ROS graph that the user may have meant by a configured name without a counterpart."""

from collections.abc import Collection, Mapping

from ..ros2 import Node, Publisher

MOST = 4
"""Largest number of suggested names."""
SEND_GOAL = "/_action/send_goal"


def like(own: str, names: Collection[str]) -> list[str]:
    """Return up to :data:`MOST` of ``names``, those that end like ``own`` first."""
    return sorted(names, key=lambda name: (_ending(name) != _ending(own), name))[:MOST]


def unheard(node: Node, publisher: Publisher) -> str:
    """Return a text about a topic without subscriptions, with other topics of its type."""
    own = publisher.topic
    alike = _of_type(node.graph.topics, own, publisher.message_type)
    return f"nobody listens to {own}{_hint(own, alike, 'topics of this type are')}"


def served_instead(node: Node, own: str, kind: str) -> str:
    """Return a hint about a missing service: its actual type, or services that end with the same name.

    Services of the same type are not suggested, because many unrelated services share a type (std_srvs/srv/Trigger).
    """
    services = node.graph.services
    if others := [other for other in services.get(own, ()) if other != kind]:
        return f": it is {' and '.join(others)} there"
    alike = [name for name in _of_type(services, own, kind) if _ending(name) == _ending(own)]
    return _hint(own, alike, "there is")


def acted_instead(node: Node, own: str, kind: str) -> str:
    """Return a hint about a missing action: other actions of its type. Empty if there are none."""
    goals = _of_type(node.graph.services, own + SEND_GOAL, f"{kind}_SendGoal")
    return _hint(own, [name.removesuffix(SEND_GOAL) for name in goals], "actions of this type are")


def _of_type(names: Mapping[str, tuple[str, ...]], own: str, kind: str) -> list[str]:
    return [name for name, kinds in names.items() if kind in kinds and name != own]


def _hint(own: str, names: Collection[str], what: str) -> str:
    return f": {what} {', '.join(like(own, names))}" if names else ""


def _ending(name: str) -> str:
    return name.rpartition("/")[2]

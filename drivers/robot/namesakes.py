"""Names in the ROS graph that may be meant by a configured name that nobody answers to."""

from collections.abc import Collection, Mapping

from ..ros2 import Node, Publisher

MOST = 4
"""Largest number of names that are suggested."""
SEND_GOAL = "/_action/send_goal"


def like(own: str, names: Collection[str]) -> list[str]:
    """Return up to :data:`MOST` of ``names``, those that end like ``own`` first."""
    return sorted(names, key=lambda name: (_ending(name) != _ending(own), name))[:MOST]


def unheard(node: Node, publisher: Publisher) -> str:
    """Return a text about a topic that nobody listens to, with other topics of its type."""
    own = publisher.topic
    alike = _of_type(node.graph.topics, own, publisher.message_type)
    return f"nobody listens to {own}{_hint(own, alike, 'topics of this type are')}"


def served_instead(node: Node, own: str, kind: str) -> str:
    """Return a hint about a service that is missing: its type there, or services that end with the same name.

    Many services that do something else have the same type (std_srvs/srv/Trigger), so those are not named.
    """
    services = node.graph.services
    if others := [other for other in services.get(own, ()) if other != kind]:
        return f": it is {' and '.join(others)} there"
    alike = [name for name in _of_type(services, own, kind) if _ending(name) == _ending(own)]
    return _hint(own, alike, "there is")


def acted_instead(node: Node, own: str, kind: str) -> str:
    """Return a hint which other actions have the type of an action that is missing; empty if there are none."""
    goals = _of_type(node.graph.services, own + SEND_GOAL, f"{kind}_SendGoal")
    return _hint(own, [name.removesuffix(SEND_GOAL) for name in goals], "actions of this type are")


def _of_type(names: Mapping[str, tuple[str, ...]], own: str, kind: str) -> list[str]:
    return [name for name, kinds in names.items() if kind in kinds and name != own]


def _hint(own: str, names: Collection[str], what: str) -> str:
    return f": {what} {', '.join(like(own, names))}" if names else ""


def _ending(name: str) -> str:
    return name.rpartition("/")[2]

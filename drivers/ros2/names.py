"""Names of nodes, topics and services: namespaces, ``~``, and remapping rules of the ROS 2 command line."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from robo_rl.core import ConfigError

_PART = r"[A-Za-z_][A-Za-z0-9_]*"
_NODE = re.compile(_PART)
_NAMESPACE = re.compile(rf"/|(/{_PART})+")
_SPECIAL = re.compile(r"(?:^|(?<=:))__(node|name|ns)$")
_NAME = re.compile(rf"~|(~/|/)?{_PART}(/{_PART})*")


Value = TypeVar("Value")


def for_node(node: str, entries: Mapping[str, Value]) -> dict[str, Value]:
    """Return the entries for a node by plain name: those for all nodes, and those written ``node:name``."""
    split = [(*name.rpartition(":"), value) for name, value in entries.items()]
    return {name: value for target, _, name, value in split if target in ("", node)}


@dataclass(frozen=True)
class Names:
    """Name of a node, and resolution of the names that it uses.

    Attributes:
        node: name of the node, without namespace.
        namespace: ``/`` or ``/a/b``.
        rules: remapping rules, from fully qualified name to fully qualified name.
    """

    node: str
    namespace: str
    rules: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, node: str, namespace: str, remappings: Mapping[str, str]) -> "Names":
        """Return the names of a node after ``remappings``: ``__node`` (or ``__name``), ``__ns``, and names of topics.

        A rule for one node only is written ``node:from``.

        Raises:
            ConfigError: if ROS 2 does not allow a name. Rules allow fewer names: rcl accepts ``__`` in them only in
                ``__node``, ``__name`` and ``__ns``.
        """
        for old, new in remappings.items():
            if "__" in _SPECIAL.sub("", old) + " " + new:
                raise ConfigError(f"the remapping {old}:={new} is none that ROS 2 reads: choose names without __")
        own = for_node(node, remappings)
        node = own.pop("__node", own.pop("__name", node))
        namespace = own.pop("__ns", namespace)
        namespace = "/" + namespace.strip("/")
        if not _NODE.fullmatch(node):
            raise ConfigError(f"{node!r} is no name of a ROS 2 node: letters, digits and _, not beginning with a digit")
        if not _NAMESPACE.fullmatch(namespace):
            raise ConfigError(f"{namespace!r} is no ROS 2 namespace: /a/b of letters, digits and _")
        plain = cls(node, namespace)
        return cls(node, namespace, {plain.resolve(old): plain.resolve(new) for old, new in own.items()})

    @property
    def full_name(self) -> str:
        """The node's fully qualified name."""
        return f"{self.namespace.rstrip('/')}/{self.node}"

    def resolve(self, name: str) -> str:
        """Return the fully qualified name of a topic, service or action after remapping.

        Raises:
            ConfigError: if ROS 2 does not allow the name.
        """
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{name!r} is no ROS 2 name: parts of letters, digits and _, joined by /; ~/ is the node")
        if name.startswith("~"):
            full = self.full_name + name[1:]
        else:
            full = name if name.startswith("/") else f"{self.namespace.rstrip('/')}/{name}"
        return self.rules.get(full, full)

"""Choices of a configuration group whose code is imported when they are chosen."""

from collections.abc import Callable
from typing import cast

from hydra.core.config_store import ConfigNode, ConfigStore
from omegaconf import DictConfig


class ChoiceNode(ConfigNode):
    """An entry of Hydra's store that makes its node when it is read for the first time.

    Args:
        group: name of the group.
        name: name of the choice.
        make_node: returns the node, such as :func:`.config_node` of a class that it imports.
    """

    def __init__(self, group: str, name: str, make_node: Callable[[], DictConfig]) -> None:
        self._make_node = make_node
        self._made: list[DictConfig] = []  # shared with the copy that Hydra makes whenever it reads the entry
        self.name, self.group = f"{name}.yaml", group
        self.package = self.provider = None

    @property
    def is_made(self) -> bool:
        """Whether the node has been read before."""
        return bool(self._made)

    @property
    def node(self) -> DictConfig:
        """The typed node; making it may take seconds."""
        if not self._made:
            self._made.append(self._make_node())
        return self._made[0]

    @node.setter
    def node(self, node: DictConfig) -> None:
        self._made = [node]


def store_choice(group: str, name: str, make_node: Callable[[], DictConfig]) -> None:
    """Register a choice of a group with Hydra: ``GROUP=NAME``.

    Help texts list its name, and refused command lines that do not choose it import nothing of it.

    Args:
        group: name of the group.
        name: name of the choice.
        make_node: returns the node; called when the choice is made.
    """
    entries = ConfigStore.instance().repo
    for part in group.split("/"):
        entries = entries.setdefault(part, {})
    cast(dict[str, ConfigNode], entries)[f"{name}.yaml"] = ChoiceNode(group, name, make_node)

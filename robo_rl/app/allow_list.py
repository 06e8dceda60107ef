"""Allow-list of names in a saved configuration: code that it makes objects of, secrets, and hosts to join.

A saved configuration may come from anyone: a run folder is copied, mailed and downloaded. Code that it names is run
only if it is a registered node of the configuration, or belongs to a package that the user registered (the entry point
``robo_rl.config``) or allowed. Configurations that a user writes, on the command line or in Python, are not checked.
"""

import functools
import importlib.metadata
import re
from collections.abc import Collection, Iterable, Iterator, Set
from pathlib import Path
from typing import Any, NamedTuple, cast

from hydra.core.config_store import ConfigNode, ConfigStore
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from ..core import ConfigError
from ..core.choices import ChoiceNode
from .registration import ENTRY_POINTS, register_all_configs
from .removed_options import drop_removed_options

_NAME = re.compile(r"[\w.:-]+")
_RESERVED = re.compile(r"_\w+_")
"""Keys with a special meaning in Hydra."""

_allowed: set[str] = set()


class _Named(NamedTuple):
    """A reference in a saved configuration to something outside its own values.

    Attributes:
        place: key, including the sections that contain it.
        name: name of the referenced thing.
        kind: ``target``, ``class``, ``environment``, ``variable`` or ``host``.
    """

    place: str
    name: str
    kind: str


def allow_packages(names: Iterable[str]) -> None:
    """Allow saved configurations to name code in these packages, in this process.

    Args:
        names: names of packages or modules, such as ``my_package``; also environment variables and hosts that an error
            message named.

    Raises:
        ConfigError: if a value is not a name.
    """
    names = list(names)
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(f"allow: expected names of packages, as allow=[my_package], got {name!r}")
    _allowed.update(names)


def needed_packages(config: DictConfig) -> list[str]:
    """Return the names that another process has to allow before it can read ``config`` from a file."""
    named = list(_named(OmegaConf.to_container(config, resolve=True)))
    registered = _registered(named)
    return sorted({missing for each in named if (missing := _missing(each, registered)) is not None} | _allowed)


def check_saved(config: DictConfig, file: Path) -> None:
    """Check that a configuration from a file names only what is registered or allowed.

    Args:
        config: the configuration as it is in the file.
        file: path of the file, for messages.

    Raises:
        ConfigError: gives the place, the name, and how to allow it.
    """
    values = OmegaConf.to_container(config, resolve=False)
    for place, key, value in _entries(values):
        if isinstance(key, str) and _RESERVED.fullmatch(key) and key != "_target_":
            raise ConfigError(f"{file}: {place} is not an option of a saved configuration: remove it")
        if isinstance(value, str) and "${" in value:
            raise ConfigError(
                f"{file}: {place}={value!r} is an interpolation, which could read values that a saved configuration "
                "must not access: write its value instead"
            )
    named = list(_named(values, f"{file}: "))
    registered = _registered(named)
    for each in named:
        if (missing := _missing(each, registered)) is None:
            continue
        if each.kind == "variable":
            what, trust = f"the environment variable {each.name}, whose value would be sent away", "you want that"
        elif each.kind == "host":
            what, trust = f"the Ray cluster {each.name}, whose code would run here", "you trust it"
        else:
            what, trust = f"{each.name!r}, which is not a registered configuration node", f"you trust {missing}"
        raise ConfigError(
            f"{file}: {each.place} names {what}: saved configurations may do so only if you allow it. If {trust}, "
            f"add allow=[{missing}], or have a package register its nodes under the entry point {ENTRY_POINTS}"
        )


def with_current_names(config: DictConfig, file: Path) -> DictConfig:
    """Return a saved configuration with the current names of options and nodes of robo-rl.

    A node whose class is registered, but under another module, has been moved since the configuration was saved.

    Args:
        config: contents of ``config.yaml``.
        file: path of the file, for messages.

    Raises:
        ConfigError: if an agent used an option that no longer exists.
    """
    values = OmegaConf.to_container(config, resolve=False)
    nodes = [(place, value) for place, _, value in _entries(values) if isinstance(value, dict)]
    targets = {place: target for place, node in nodes if isinstance(target := node.get("_target_"), str)}
    registered = _registered([_Named(place, target, "target") for place, target in targets.items()])
    for place, node in nodes:
        target = targets.get(place)
        if target is not None and _is_in(target, "robo_rl") and target not in registered:
            own = (name for name in registered if _is_in(name, "robo_rl"))
            candidates = [name for name in own if name.rpartition(".")[2] == target.rpartition(".")[2]]
            if len(candidates) == 1:
                node["_target_"] = candidates[0]
        if place in ("agent", "reset.agent") and "backend" in node:
            node["implementation"] = node.pop("backend")
        if place in ("agent", "reset.agent"):
            drop_removed_options(node, f"{file}: {place}")
    return OmegaConf.create(cast(dict[str, Any], values))


def _entries(node: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield place, key and value of everything in nested dictionaries and lists."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        inner = f"{place}.{key}" if place else str(key)
        yield inner, key, value
        yield from _entries(value, inner)


def _named(values: Any, source: str = "") -> Iterator[_Named]:
    """Yield the references in a configuration.

    Args:
        values: nested dictionaries and lists.
        source: beginning of error messages.

    Raises:
        ConfigError: if a name is not a string.
    """
    for place, key, value in _entries(values):
        merged = place.removeprefix("resumed.")  # the place in the completed configuration of the run
        is_filter = key == "target" and re.fullmatch(r"safety\.filters\.\d+\.target", merged)
        if key == "_target_" or is_filter:
            if not isinstance(value, str) or not _NAME.fullmatch(value):
                raise ConfigError(f"{source}{place} must be the name of a class or function, got {value!r}")
            yield _Named(place, value, "target")
        elif not isinstance(value, str):
            continue
        elif key == "model" and value.startswith("torch:"):
            yield _Named(place, value.removeprefix("torch:"), "class")
        elif key == "env_id" and ":" in value:
            yield _Named(place, value.replace(":", "."), "environment")
        elif key == "key_variable":
            yield _Named(place, value, "variable")
        elif merged == "runtime.cluster" and value != "auto":
            yield _Named(place, value, "host")


def _registered(named: Collection[_Named]) -> set[str]:
    """Return targets of nodes in Hydra's store, except Hydra's own: all, or enough that each name is among them.

    Nodes that have been read come first, then those of the groups that the names are in: to read others imports what
    they configure, which takes half a second.
    """
    register_all_configs()
    missing = {each.name for each in named if each.kind not in ("variable", "host")}
    groups = {each.place.partition(".")[0] for each in named}
    registered: set[str] = set()

    def order(node: ConfigNode) -> tuple[bool, bool]:
        unread = isinstance(node, ChoiceNode) and not node.is_made
        return unread, unread and str(node.group).partition("/")[0] not in groups

    repo = {key: node for key, node in ConfigStore.instance().repo.items() if key != "hydra"}
    for node in sorted(_nodes(repo), key=order):
        if missing <= registered:
            break
        registered |= _targets(node.node)
    return registered


_targets_of_nodes: dict[int, tuple[DictConfig, frozenset[str]]] = {}
"""Nodes that were read and the targets in them, by identity; a node that is kept here leaves its identity to none."""


def _targets(node: DictConfig) -> frozenset[str]:
    """Return the targets in a node of Hydra's store, none of which changes once it is stored."""
    if id(node) not in _targets_of_nodes:
        entries = _entries(OmegaConf.to_container(node, resolve=False))
        targets = frozenset(value for _, key, value in entries if key == "_target_")
        _targets_of_nodes[id(node)] = node, targets
    return _targets_of_nodes[id(node)][1]


def _nodes(entries: Any) -> Iterator[ConfigNode]:
    """Yield the nodes in nested entries of Hydra's store."""
    for entry in entries.values():
        if isinstance(entry, ConfigNode):
            yield entry
        else:
            yield from _nodes(entry)


@functools.cache
def _own_packages() -> frozenset[str]:
    """Return the packages that are installed with an entry point, except robo-rl, whose nodes alone are allowed."""
    modules: set[str] = set()
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        installed_with_it = entry.dist.read_text("top_level.txt") if entry.dist is not None else None
        modules.update([entry.module.partition(".")[0], *(installed_with_it or "").split()])
    return frozenset(modules - {"robo_rl"})


def _missing(named: _Named, registered: Set[str]) -> str | None:
    """Return the name that has to be allowed before a reference is permitted; None if it is permitted."""
    if named.kind in ("variable", "host"):
        return None if named.name in _allowed else named.name
    if named.name in registered:
        return None
    packages = _own_packages() | _allowed
    if not any(_is_in(named.name, package) for package in packages):
        return named.name.partition(".")[0]
    try:
        target = get_object(named.name)
    except Exception:  # the code that makes the object reports it; an id of an environment names no object
        return None
    # my_package.os.system is not code of my_package.
    defined_in = getattr(target, "__module__", None) or type(target).__module__
    return None if any(_is_in(defined_in, package) for package in packages) else str(defined_in).partition(".")[0]


def _is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")

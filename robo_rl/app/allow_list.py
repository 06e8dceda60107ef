"""Allow-list of what a saved configuration may name: code that it makes objects of, secrets and places to join.

A saved configuration may come from anybody: a run folder is copied, mailed and downloaded. Code that it names is run
only where it is a registered node of the configuration, or of a package that the user registered (the entry point
``robo_rl.config``) or allowed. Configurations that a user writes, on the command line or in Python, are not checked.
"""

import functools
import importlib.metadata
import re
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import Any, NamedTuple, cast

from hydra.core.config_store import ConfigNode, ConfigStore
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from ..core import ConfigError
from .composition import ENTRY_POINTS, register_all_configs

_NAME = re.compile(r"[\w.:-]+")
_RESERVED = re.compile(r"_\w+_")
"""Keys with a meaning to Hydra."""

_allowed: set[str] = set()


class _Named(NamedTuple):
    """Something outside its own values that a saved configuration names.

    Attributes:
        place: key, with those of the sections that it is in.
        name: what it names.
        kind: ``target``, ``class``, ``module``, ``variable`` or ``host``.
    """

    place: str
    name: str
    kind: str


def allow_packages(names: Iterable[str]) -> None:
    """Allow saved configurations to name code of these packages, in this process.

    Args:
        names: of packages or modules, such as ``my_package``; also of environment variables and hosts that a refusal
            named.

    Raises:
        ConfigError: if something is no name.
    """
    names = list(names)
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(f"allow: expected names of packages, as allow=[my_package], got {name!r}")
    _allowed.update(names)


def needed_packages(config: DictConfig) -> list[str]:
    """Return what another process has to allow so that it may read ``config`` from a file."""
    registered, named = _registered(), _named(OmegaConf.to_container(config, resolve=True))
    return sorted({missing for each in named if (missing := _missing(each, registered)) is not None} | _allowed)


def check_saved(config: DictConfig, file: Path) -> None:
    """Check that a configuration from a file names nothing but what is registered or allowed.

    Args:
        config: as it is in the file.
        file: for errors.

    Raises:
        ConfigError: naming the place, what it names and how that is allowed.
    """
    values = OmegaConf.to_container(config, resolve=False)
    for place, key, value in _entries(values):
        if isinstance(key, str) and _RESERVED.fullmatch(key) and key != "_target_":
            raise ConfigError(f"{file}: {place} is no option of a saved configuration: remove it")
        if isinstance(value, str) and "${" in value:
            raise ConfigError(
                f"{file}: {place}={value!r} is an interpolation, which may read what is none of a saved "
                "configuration's business: write its value"
            )
    registered = _registered()
    for each in _named(values, f"{file}: "):
        if (missing := _missing(each, registered)) is None:
            continue
        if each.kind == "variable":
            what, trust = f"the environment variable {each.name}, whose value would be sent away", "that is wanted"
        elif each.kind == "host":
            what, trust = f"the Ray cluster {each.name}, whose code would run here", "it is trusted"
        else:
            what, trust = f"{each.name!r}, which is no registered configuration node", f"{missing} is trusted"
        raise ConfigError(
            f"{file}: {each.place} names {what}: saved configurations may not, unless that is allowed. Where {trust}, "
            f"give allow=[{missing}], or have a package register its nodes under the entry point {ENTRY_POINTS}"
        )


def with_current_names(config: DictConfig) -> DictConfig:
    """Return a saved configuration in which options and nodes of robo-rl have today's names.

    A node that is not registered by the name of its module, but by that of its class, has moved since.
    """
    registered = {name for name in _registered() if _is_in(name, "robo_rl")}
    values = OmegaConf.to_container(config, resolve=False)
    for place, node in [(place, value) for place, _, value in _entries(values) if isinstance(value, dict)]:
        target = node.get("_target_")
        if isinstance(target, str) and _is_in(target, "robo_rl") and target not in registered:
            candidates = [name for name in registered if name.rpartition(".")[2] == target.rpartition(".")[2]]
            if len(candidates) == 1:
                node["_target_"] = candidates[0]
        if place in ("agent", "reset.agent") and "backend" in node:
            node["implementation"] = node.pop("backend")
    return OmegaConf.create(cast(dict[str, Any], values))


def _entries(node: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield place, key and value of everything in nested dictionaries and lists."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        inner = f"{place}.{key}" if place else str(key)
        yield inner, key, value
        yield from _entries(value, inner)


def _named(values: Any, source: str = "") -> Iterator[_Named]:
    """Yield what a configuration names.

    Args:
        values: nested dictionaries and lists.
        source: how errors begin.

    Raises:
        ConfigError: if a name is no text.
    """
    for place, key, value in _entries(values):
        merged = place.removeprefix("resumed.")  # where it stands once the run's configuration is complete
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
            yield _Named(place, value.rpartition(":")[0], "module")
        elif key == "key_variable":
            yield _Named(place, value, "variable")
        elif merged == "runtime.cluster" and value != "auto":
            yield _Named(place, value, "host")


def _registered() -> frozenset[str]:
    """Return the targets of all nodes in Hydra's store, but for its own."""
    register_all_configs()
    return frozenset(_targets({key: node for key, node in ConfigStore.instance().repo.items() if key != "hydra"}))


def _targets(node: Any) -> Iterator[str]:
    if isinstance(node, ConfigNode):
        node = OmegaConf.to_container(node.node, resolve=False)
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key == "_target_":
            yield value
        else:
            yield from _targets(value)


@functools.cache
def _own_packages() -> frozenset[str]:
    """Return the packages whose entry points register nodes, but for robo-rl, of which the nodes alone count."""
    modules = {entry.module.partition(".")[0] for entry in importlib.metadata.entry_points(group=ENTRY_POINTS)}
    return frozenset(modules - {"robo_rl"})


def _missing(named: _Named, registered: Set[str]) -> str | None:
    """Return what has to be allowed before something may be named; None where it may be."""
    if named.kind in ("variable", "host"):
        return None if named.name in _allowed else named.name
    if named.name in registered:
        return None
    packages = _own_packages() | _allowed
    if not any(_is_in(named.name, package) for package in packages):
        return named.name.partition(".")[0]
    if named.kind == "module":
        return None
    try:
        found = get_object(named.name)
    except Exception:  # whoever makes the object says so
        return None
    # my_package.os.system is no code of my_package.
    defined_in = getattr(found, "__module__", None) or type(found).__module__
    return None if any(_is_in(defined_in, package) for package in packages) else str(defined_in).partition(".")[0]


def _is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")

"""Configuration: frozen dataclasses that check themselves, and their form in Hydra's ConfigStore."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from omegaconf import DictConfig, OmegaConf

Config = TypeVar("Config")


def as_config(value: Config | Mapping[str, Any], config_class: type[Config]) -> Config:
    """Return the configuration that ``value`` is, or the fields of.

    For ``__post_init__`` of a configuration within which there is another: of what was added on the command line a
    resumed run knows the fields alone.
    """
    return config_class(**value) if isinstance(value, Mapping) else value


def config_node(target: str | Callable[..., Any] | None, config_class: type) -> DictConfig:
    """Return ``config_class`` as a typed node for ``ConfigStore.store(node=...)``.

    Defaults stay where they are written once, in ``config_class``. ``robo_rl.app`` calls ``target`` with the fields
    as keyword arguments; a user's own class in a user's own package works the same way.

    Args:
        target: dotted name of the callable, the callable itself, or None for a node that nothing is made from.
        config_class: a frozen dataclass whose fields all have defaults.
    """
    if target is not None:
        name = target if isinstance(target, str) else f"{target.__module__}.{target.__qualname__}"
        config_class = dataclasses.make_dataclass(
            config_class.__name__,
            [("_target_", str, dataclasses.field(default=name))],
            bases=(config_class,),
            frozen=True,
            kw_only=True,
            namespace={"__doc__": config_class.__doc__, "__module__": config_class.__module__},
        )
    node = OmegaConf.structured(config_class)
    assert isinstance(node, DictConfig)
    _make_writable(node)
    _open_dictionaries(node)
    return node


def _open_dictionaries(node: DictConfig, inside: bool = False) -> None:
    """Let dictionaries that are fields of a configuration class take keys of any name.

    Args:
        node: of a typed configuration.
        inside: whether it is part of a configuration class.
    """
    structured = dataclasses.is_dataclass(OmegaConf.get_type(node) or node._metadata.ref_type)
    if inside and not structured:
        OmegaConf.set_struct(node, False)
    for key in () if node._is_none() or node._is_missing() else node:
        child = node._get_node(key)
        if isinstance(child, DictConfig):
            _open_dictionaries(child, inside or structured)


def _make_writable(node: DictConfig) -> None:
    """Undo the read-only mark that OmegaConf puts on frozen dataclasses: overrides must be able to write."""
    OmegaConf.set_readonly(node, None)
    for key in node:
        child = node._get_node(key)
        if isinstance(child, DictConfig) and not child._is_none() and not child._is_missing():
            _make_writable(child)

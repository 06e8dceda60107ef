"""Configuration as frozen dataclasses that validate themselves, and their form in Hydra's ConfigStore."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from omegaconf import DictConfig, OmegaConf

from .options import require

Config = TypeVar("Config")


def as_config(value: Config | Mapping[str, Any], config_class: type[Config]) -> Config:
    """Return ``value`` if it is a configuration, or else the configuration with the fields in ``value``.

    For ``__post_init__`` of a configuration that contains another one: in a resumed run, a configuration that was added
    on the command line is known only by its fields.
    """
    return config_class(**value) if isinstance(value, Mapping) else value


def config_node(target: str | Callable[..., Any] | None, config_class: type) -> DictConfig:
    """Return ``config_class`` as a typed node for ``ConfigStore.store(node=...)``.

    Defaults remain in ``config_class`` alone. ``robo_rl.app`` calls ``target`` with the fields
    as keyword arguments; a user's own class in a user's own package works the same way.

    Args:
        target: dotted name of the callable, the callable itself, or None for a node that no object is made from.
        config_class: a dataclass whose fields all have defaults.
    """
    if target is not None:
        name = target if isinstance(target, str) else f"{target.__module__}.{target.__qualname__}"
        config_class = dataclasses.make_dataclass(
            config_class.__name__,
            [("_target_", str, dataclasses.field(default=name))],
            bases=(config_class,),
            # A subclass has to be frozen if and only if its base is; typeshed does not know this attribute.
            frozen=config_class.__dataclass_params__.frozen,  # type: ignore[attr-defined]
            kw_only=True,
            namespace={"__doc__": config_class.__doc__, "__module__": config_class.__module__},
        )
    node = OmegaConf.structured(config_class)
    assert isinstance(node, DictConfig)
    _make_writable(node)
    _open_dictionaries(node)
    return node


def section(config: DictConfig, name: str) -> Any:
    """Return a section of the configuration as its dataclass, which validates the values."""
    return OmegaConf.to_object(config[name])


def typed(config_class: type[Config], config: DictConfig, section: str | None = None) -> Config:
    """Return ``config``, or a section of it, as ``config_class``, which has the types and validates the values.

    The class has no defaults, as they are in the YAML file.
    """
    node = config_node(None, config_class)
    if section is None:
        return cast(Config, OmegaConf.to_object(OmegaConf.merge(node, config)))
    merged = OmegaConf.merge({section: node}, {section: config[section]})  # so that errors name section.key
    return cast(dict[str, Config], OmegaConf.to_object(merged))[section]


@dataclasses.dataclass(frozen=True)
class _SeedConfig:
    seed: int

    def __post_init__(self) -> None:
        require(self.seed >= 0, "seed", "0 or more", self.seed)


def check_seed(config: DictConfig) -> None:
    """Check the option ``seed`` of a command without a configuration class: an integer of 0 or more."""
    typed(_SeedConfig, OmegaConf.create({"seed": config.seed}))


def _open_dictionaries(node: DictConfig, inside: bool = False) -> None:
    """Allow keys of any name in dictionaries that are fields of a configuration class.

    Args:
        node: node of a typed configuration.
        inside: whether the node is part of a configuration class.
    """
    structured = dataclasses.is_dataclass(OmegaConf.get_type(node) or node._metadata.ref_type)
    if inside and not structured:
        OmegaConf.set_struct(node, False)
    for key in () if node._is_none() or node._is_missing() else node:
        child = node._get_node(key)
        if isinstance(child, DictConfig):
            _open_dictionaries(child, inside or structured)


def _make_writable(node: DictConfig) -> None:
    """Remove the read-only flag that OmegaConf sets for frozen dataclasses, so that overrides can write."""
    OmegaConf.set_readonly(node, None)
    for key in node:
        child = node._get_node(key)
        if isinstance(child, DictConfig) and not child._is_none() and not child._is_missing():
            _make_writable(child)

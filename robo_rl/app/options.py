"""Options of commands as typed, checked values."""

from dataclasses import dataclass
from typing import TypeVar, cast

from omegaconf import DictConfig, OmegaConf

from ..core import config_node, require

Config = TypeVar("Config")


def typed(config_class: type[Config], config: DictConfig, section: str | None = None) -> Config:
    """Return ``config``, or a section of it, as ``config_class``, which has the types and validates the values.

    The class has no defaults, as they are in the YAML file.
    """
    node = config_node(None, config_class)
    if section is None:
        return cast(Config, OmegaConf.to_object(OmegaConf.merge(node, config)))
    merged = OmegaConf.merge({section: node}, {section: config[section]})  # so that errors name section.key
    return cast(dict[str, Config], OmegaConf.to_object(merged))[section]


@dataclass(frozen=True)
class _SeedConfig:
    seed: int

    def __post_init__(self) -> None:
        require(self.seed >= 0, "seed", "0 or more", self.seed)


def check_seed(config: DictConfig) -> None:
    """Check the option ``seed`` of a command without a configuration class: an integer of 0 or more."""
    typed(_SeedConfig, OmegaConf.create({"seed": config.seed}))

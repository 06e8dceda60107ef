"""Commands that choose no task, agent or other group, and so need none of the packages that configure these."""

import importlib
from collections.abc import Sequence
from importlib import resources
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from ..core import config_node
from .option_help import help_page, options


class Schema(NamedTuple):
    """A section that commands without a task have.

    Attributes:
        section: name of the section.
        package: package that registers it with Hydra.
        config_class: its class in this package.
    """

    section: str
    package: str
    config_class: str


SCHEMAS = {
    "web_schema": Schema("web", "robo_rl.web", "WebConfig"),
    "board_schema": Schema("board", "robo_rl.calibration", "BoardConfig"),
    "execution_schema": Schema("execution", "robo_rl.residual", "ExecutionChanges"),
    "control_schema": Schema("transport", "robo_rl.transport", "TransportConfig"),
}
"""Sections by their names in the list ``defaults`` of a configuration."""

SHARED = ("web",)
"""Commands whose options others share, by their names in ``defaults``."""


def light_schemas(command: str) -> list[Schema] | None:
    """Return the sections of a command besides its own options; None if it chooses a group."""
    names = [name for name in _own_config(command).defaults if name not in ("common", "_self_")]
    return [SCHEMAS[name] for name in names] if SCHEMAS.keys() >= set(names) else None


def light_help(command: str, words: Sequence[str]) -> str | None:
    """Return the help of a command without Hydra, which takes a third of a second to import.

    Args:
        command: words of the command.
        words: its options and flags.

    Returns:
        The text of :func:`.help_text`; None if the command chooses a group, or if there are other words than flags for
        help.
    """
    schemas = light_schemas(command)
    if schemas is None or not {"-h", "--help", "--help-all"}.issuperset(words):
        return None
    config = _own_config(command)
    del config["defaults"]
    config.pop("hydra", None)
    nodes: list[Any] = [
        {schema.section: config_node(None, getattr(importlib.import_module(schema.package), schema.config_class))}
        for schema in schemas
    ]
    merged = OmegaConf.merge(*nodes, config)
    assert isinstance(merged, DictConfig)
    return help_page(command, [], options(merged, _name(command)), "--help-all" in words)


def _own_config(command: str) -> DictConfig:
    """Return the command's file in configs, together with that of a command whose options it shares."""
    file = resources.files("robo_rl.configs").joinpath(f"{_name(command)}.yaml")
    config = OmegaConf.create(file.read_text())
    assert isinstance(config, DictConfig)
    shared = [_own_config(name) for name in config.defaults if name in SHARED]
    merged = OmegaConf.merge(*shared, config)
    assert isinstance(merged, DictConfig)
    merged.defaults = [name for each in (*shared, config) for name in each.defaults if name not in SHARED]
    return merged


def _name(command: str) -> str:
    return command.replace(" ", "_")

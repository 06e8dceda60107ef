"""Conversion of the entries of a configuration's dictionary to their class."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar, cast

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from robo_rl.core import ConfigError, config_node, nearest, require

Entry = TypeVar("Entry")


def entry(place: str, value: Entry | Mapping[str, Any], kind: type[Entry], example: str) -> Entry:
    """Return an entry as its class; Hydra passes it as a dictionary.

    Args:
        place: full name of the entry, for messages.
        value: the entry, or its fields.
        kind: its class, a dataclass.
        example: fields of an entry as they are written on a command line, for messages.

    Raises:
        ConfigError: if there is no such field, or a value has the wrong type.
    """
    if isinstance(value, kind):
        return value
    require(isinstance(value, Mapping), place, f"fields, for example {example}", value)
    given = cast(Mapping[str, Any], value)
    valid = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    for key in given:
        if key not in valid:
            raise ConfigError(f"{place} has no field {key!r}: {nearest(str(key), valid)}")
    try:
        return cast(Entry, OmegaConf.to_object(OmegaConf.merge(config_node(None, kind), dict(given))))
    except OmegaConfBaseException as error:
        raise ConfigError(f"{place}: {str(error).partition(chr(10))[0]}") from error

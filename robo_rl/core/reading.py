"""Readers of small files from disk whose content nobody vouches for: bounded in size, depth and time."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from .errors import DataError

CONFIG_BYTES = 256 << 10
"""Most bytes of a configuration in YAML, which parses slowly: a run's has about ten thousand."""

CONFIG_DEPTH = 64
"""Deepest nesting of a configuration."""

JSON_BYTES = 64 << 20
"""Most bytes of a JSON file."""

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_file(path: Path, most_bytes: int = JSON_BYTES) -> bytes:
    """Return the content of a regular file of at most ``most_bytes``.

    A FIFO, a device or a file of three gigabytes is refused before anything is read: none may block the caller or fill
    its memory.

    Raises:
        DataError: if it is no regular file, or larger.
        OSError: if it cannot be opened or read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(descriptor)
        if stat.S_ISDIR(facts.st_mode):
            raise IsADirectoryError(21, "Is a directory", str(path))
        if not stat.S_ISREG(facts.st_mode):
            raise DataError(f"{path}: expected a regular file, found a device, pipe or socket: remove it")
        content = stream.read(most_bytes + 1) if facts.st_size <= most_bytes else None
    if content is None or len(content) > most_bytes:
        raise DataError(f"{path}: expected at most {most_bytes:,} bytes, found {facts.st_size:,}: it is damaged")
    return content


def parse_json(text: str | bytes, finite: bool = False) -> Any:
    """Return the value of a JSON text.

    Args:
        text: in UTF-8.
        finite: refuse NaN and infinities, which Python reads and JSON does not have.

    Raises:
        ValueError: if it is none: also where it is nested too deeply for this process.
    """
    try:
        return json.loads(text, parse_constant=_refuse if finite else None)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def load_config(path: Path) -> DictConfig:
    """Return the options that a YAML file holds; interpolations stay as they are written.

    Raises:
        DataError: if it is too large or nested too deeply, repeats parts by aliases, or holds no options by name.
        OSError: if it cannot be opened or read.
    """
    try:
        text = read_file(path, CONFIG_BYTES).decode()
        depth = 0
        for event in yaml.parse(text, Loader=_PARSER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > CONFIG_DEPTH:
                raise ValueError(f"nested more than {CONFIG_DEPTH} deep")
            if isinstance(event, yaml.AliasEvent):  # a few lines of them stand for gigabytes
                raise ValueError("YAML aliases are not read")
        config = OmegaConf.create(text)
    except (DataError, OSError):
        raise
    except Exception as error:  # OmegaConf passes on whatever its YAML reader raises
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(f"{path} cannot be read ({reason}): it is damaged, restore it from a copy") from error
    if not isinstance(config, DictConfig):
        raise DataError(f"{path} is no configuration: expected options by name, found a list")
    return config

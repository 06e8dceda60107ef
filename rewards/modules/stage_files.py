"""Files of stage classifiers: safetensors, with a JSON card in the header that describes their inputs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec, SpecError, State, parse_json, write_durably

FORMAT = "robo_rl stages 2"
MOST_BYTES = 1 << 28
"""Largest size of a file that is read [bytes]."""

OF_FILE = ("keys", "images", "stages", "hidden", "guard")
"""Options whose values in the file replace those of the configuration."""


def write_classifier(
    path: Path, state: State, config: Mapping[str, Any], spec: EnvSpec, keys: Sequence[str], facts: Mapping[str, Any]
) -> None:
    """Write a classifier.

    Args:
        path: path of the file; its folder is created if it is missing.
        state: state of the module.
        config: values of :data:`OF_FILE`.
        spec: spec of the environment that the classifier was made for.
        keys: observation keys that the classifier reads, even if the configuration names none.
        facts: JSON values for human readers.
    """
    observation = {key: spec.observation[key].to_json() for key in keys}
    card = {"format": FORMAT, "config": {**config, "keys": list(keys)}, "observation": observation, **facts}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, save(state, metadata={"card": json.dumps(card)}))


def read_classifier(path: Path, spec: EnvSpec, option: str) -> tuple[dict[str, Any], State]:
    """Return the values of :data:`OF_FILE`, and the state of the module.

    Args:
        path: path of the file.
        spec: spec of the environment that the classifier will judge.
        option: name of the configuration key, for messages.

    Raises:
        ConfigError: if there is no such file, or it was made for other observations.
        DataError: if it cannot be read.
    """
    if not path.is_file():
        raise ConfigError(f"{option}: there is no file {path}: name a file written by robo-rl label")
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise ValueError(f"expected at most {MOST_BYTES:,} bytes, found {size:,}")
        with safe_open(path, framework="numpy") as stream:
            card = parse_json((stream.metadata() or {})["card"], str(path), finite=False)
            state = {key: stream.get_tensor(key) for key in stream.keys()}  # noqa: SIM118 (not a dictionary)
        if card["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT!r}, found {card['format']!r}")
        values = {key: card["config"][key] for key in OF_FILE}
        expected = {key: ArraySpec.from_json(value) for key, value in card["observation"].items()}
    except (DataError, SpecError, OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise DataError(f"{option}: {path} is not a classifier written by robo-rl label: {error!r}") from error
    for key, array in expected.items():
        local = spec.observation.get(key)
        if local is None or (local.shape, local.dtype, local.names) != (array.shape, array.dtype, array.names):
            raise ConfigError(
                f"{option}: {path} uses {key!r}, {_description(array)}; this task has {_description(local)}"
            )
    return values, state


def _description(array: ArraySpec | None) -> str:
    return "none" if array is None else f"{array.dtype} {list(array.shape)} {', '.join(array.names)}".rstrip()

"""The files of classifiers of stages: safetensors, with a card in JSON in their header that says what they look at."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec, SpecError, State, parse_json, write_durably

FORMAT = "robo_rl stages 2"

OF_FILE = ("keys", "images", "stages", "hidden", "guard")
"""What a file says in the place of the configuration."""


def write_classifier(
    path: Path, state: State, config: Mapping[str, Any], spec: EnvSpec, keys: Sequence[str], facts: Mapping[str, Any]
) -> None:
    """Write a classifier.

    Args:
        path: of the file, whose folder is made where it is missing.
        state: of the module.
        config: values of :data:`OF_FILE`.
        spec: of the environment that it was made for.
        keys: observation keys that it looks at, also where the configuration names none.
        facts: for people, JSON values.
    """
    looked_at = {key: spec.observation[key].to_json() for key in keys}
    card = {"format": FORMAT, "config": {**config, "keys": list(keys)}, "observation": looked_at, **facts}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, save(state, metadata={"card": json.dumps(card)}))


def read_classifier(path: Path, spec: EnvSpec, option: str) -> tuple[dict[str, Any], State]:
    """Return the values of :data:`OF_FILE`, and the state of the module.

    Args:
        path: of the file.
        spec: of the environment that it is to judge.
        option: name of the configuration key, for messages.

    Raises:
        ConfigError: if there is no file, or it was made for other observations.
        DataError: if it cannot be read.
    """
    if not path.is_file():
        raise ConfigError(f"{option}: there is no file {path}: give one that robo-rl label made")
    try:
        with safe_open(path, framework="numpy") as stream:
            card = parse_json((stream.metadata() or {})["card"], str(path), finite=False)
            state = {key: stream.get_tensor(key) for key in stream.keys()}  # noqa: SIM118 (it is no dictionary)
        if card["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT!r}, found {card['format']!r}")
        said = {key: card["config"][key] for key in OF_FILE}
        looked_at = {key: ArraySpec.from_json(value) for key, value in card["observation"].items()}
    except (DataError, SpecError, OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise DataError(f"{option}: {path} is no classifier of robo-rl label: {error!r}") from error
    for key, array in looked_at.items():
        ours = spec.observation.get(key)
        if ours is None or (ours.shape, ours.dtype, ours.names) != (array.shape, array.dtype, array.names):
            raise ConfigError(f"{option}: {path} looks at {key!r}, {_told(array)}; this task has {_told(ours)}")
    return said, state


def _told(array: ArraySpec | None) -> str:
    return "none" if array is None else f"{array.dtype} {list(array.shape)} {', '.join(array.names)}".rstrip()

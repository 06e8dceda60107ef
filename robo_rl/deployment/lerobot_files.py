"""Files of a policy that LeRobot saved: its configuration, its weights, and from 0.4 on the processors beside them."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robo_rl.core import DataError, open_regular, parse_json, printable, read_bytes, reading, whole_number

ADVICE = "give the folder pretrained_model of a checkpoint of LeRobot"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
PROCESSORS = ("policy_preprocessor.json", "policy_postprocessor.json")
"""Files of the pipelines that normalise observations and actions, from LeRobot 0.4 on."""
_MOST_JSON = 1 << 20
_MOST_STEPS = 100


@dataclass(frozen=True)
class LeRobotFiles:
    """What the files in a folder of LeRobot state.

    Args:
        names: their names, those of the processors' states among them.
        type: type of the policy, such as ``act``.
        inputs: shapes of the observations that the folder expects, by LeRobot's name.
        outputs: shapes of what the policy decides, by name.
        observed_steps: number of consecutive observations that it decides on.
        action_chunk: number of actions that it decides at once.
        fingerprint: hash of the files.
    """

    names: tuple[str, ...]
    type: str
    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]
    observed_steps: int
    action_chunk: int
    fingerprint: str


def read_lerobot(folder: Path) -> LeRobotFiles:
    """Return what the files in a folder of LeRobot state.

    Raises:
        DataError: if files are missing or damaged, or a processor is one that robo-rl does not compute.
    """
    file = folder / CONFIG
    try:
        config = parse_json(read_bytes(file, _MOST_JSON), str(file))
        states, renamed = _read_processors(folder)
        names = tuple(dict.fromkeys((CONFIG, WEIGHTS, *states)))
        fingerprint = _hash(folder, names)
    except OSError as error:
        raise DataError(
            f"{folder} is not a policy of LeRobot: {error.filename or file} cannot be read "
            f"({error.strerror or error}). Give the folder pretrained_model of a checkpoint"
        ) from error
    with reading(file, DataError, ADVICE):
        inputs = {renamed.get(name, name): _shape(each) for name, each in config["input_features"].items()}
        outputs = {str(name): _shape(each) for name, each in config["output_features"].items()}
        observed_steps = whole_number(config.get("n_obs_steps", 1), 1, 10_000)
        chunk = config.get("n_action_steps", config.get("action_chunk_size", 1))
        chunk = whole_number(chunk, 1, 10_000)
        return LeRobotFiles(names, str(config["type"]), inputs, outputs, observed_steps, chunk, fingerprint)


def _read_processors(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the names of the processors' files, and the name in the data set of each observation that they rename."""
    found = [name for name in PROCESSORS if os.path.lexists(folder / name)]
    if not found:  # LeRobot before 0.4, which normalises within the policy
        return [], {}
    if missing := set(PROCESSORS).difference(found):
        raise DataError(
            f"{folder} has {found[0]} but lacks {missing.pop()}: LeRobot saves both. Copy the whole folder "
            "pretrained_model of a checkpoint"
        )
    names: list[str] = []
    renamed: dict[str, str] = {}
    for name in PROCESSORS:
        file = folder / name
        content = parse_json(read_bytes(file, _MOST_JSON), str(file))
        names.append(name)
        with reading(file, DataError, ADVICE):
            steps = content["steps"]
            whole_number(len(steps), 0, _MOST_STEPS)
            for number, step in enumerate(steps):
                if (state := _check_step(step, f"{file}: step {number}")) is not None:
                    names.append(state)
                for old, new in step.get("config", {}).get("rename_map", {}).items():
                    renamed[str(new)] = renamed.pop(old, old)
    return names, renamed


def _check_step(step: Mapping[str, Any], where: str) -> str | None:
    """Refuse a step of a pipeline that robo-rl does not compute, and return the name of its file, if it has one."""
    kind, config, state = step.get("registry_name"), step.get("config", {}), step.get("state_file")
    if not isinstance(kind, str):  # LeRobot would import and call whatever the file names
        found = printable(str(step.get("class")))[:80]
        raise DataError(f"{where} is the class {found}: only steps with a registry_name of LeRobot are computed")
    where = f"{where} ({printable(kind)[:80]})"
    if kind == "relative_actions_processor" and config.get("enabled"):
        raise DataError(
            f"{where}: actions relative to the observed state are not supported, because LeRobot's select_action "
            "does not keep the state that a chunk is relative to. Train the policy on absolute actions"
        )
    if state is None:
        modes, features = config.get("norm_map", {}), config.get("features", {})
        if any(modes.get(feature["type"], "IDENTITY") != "IDENTITY" for feature in features.values()):
            raise DataError(f"{where} has no statistics (state_file), so LeRobot would not normalise: train it again")
        return None
    name = str(state)
    if Path(name).name != name or not name.endswith(".safetensors"):
        raise DataError(f"{where}: expected state_file to name a .safetensors file of the folder, found {name!r:.80}")
    return name


def _hash(folder: Path, names: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for name in names:
        with open_regular(folder / name) as number, os.fdopen(number, "rb", closefd=False) as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def _shape(feature: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(whole_number(size, 1, 100_000) for size in feature["shape"])

"""Files of a policy that LeRobot saved: its configuration, its weights, and, from 0.4 on, its processors."""

import hashlib
import os
import re
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
    """Specification of a policy that LeRobot saved, read from the files in its folder.

    Args:
        names: names of the files, including the states of the processors.
        type: type of the policy, such as ``act``.
        inputs: shapes of the observations before the processors, by LeRobot's name.
        outputs: shapes of the policy's outputs, by name.
        observed_steps: number of consecutive observations that the policy takes as input.
        action_chunk: number of actions that the policy computes at once.
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
    """Return the specification of the policy in a folder of LeRobot.

    Raises:
        DataError: if files are missing or damaged, or a step of a processor is not supported.
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
    """Return the names of the processors' files, and the original name of each observation that they rename."""
    present = [name for name in PROCESSORS if os.path.lexists(folder / name)]
    if not present:  # LeRobot before 0.4 normalises within the policy
        return [], {}
    if missing := set(PROCESSORS).difference(present):
        raise DataError(
            f"{folder} has {present[0]} but lacks {missing.pop()}: LeRobot saves both. Copy the whole folder "
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
                if (state := _check_step(folder, step, f"{file}: step {number}")) is not None:
                    names.append(state)
                renamed = _rename(renamed, step.get("config", {}).get("rename_map", {}))
    return names, renamed


def _rename(names: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Return the original names by the new ones after a step, which renames all observations at once."""
    kept = {name: original for name, original in names.items() if name not in changes}
    return kept | {str(new): names.get(old, old) for old, new in changes.items()}


def _check_step(folder: Path, step: Mapping[str, Any], where: str) -> str | None:
    """Refuse a step of a pipeline that is not supported; return the name of its state file, if it has one."""
    kind, config, state = step.get("registry_name"), step.get("config", {}), step.get("state_file")
    if not isinstance(kind, str):  # checked, because LeRobot would import and call whatever the file names
        name = printable(str(step.get("class")))[:80]
        raise DataError(f"{where} is the class {name}: only steps with a registry_name of LeRobot are computed")
    where = f"{where} ({printable(kind)[:80]})"
    if kind == "relative_actions_processor" and config.get("enabled"):
        raise DataError(
            f"{where}: actions relative to the observed state are not supported, because LeRobot's select_action "
            "does not keep the state that a chunk is relative to. Train the policy on absolute actions"
        )
    if step.get("artifacts"):
        raise DataError(f"{where} has artifacts, files of LeRobot after 0.6.1, which are not supported")
    if state is not None and (not isinstance(state, str) or re.fullmatch(r"[\w.-]+\.safetensors", state) is None):
        raise DataError(f"{where}: expected state_file to name a .safetensors file of the folder, found {state!r:.80}")
    if normalised := _normalised(config):
        tensors = set() if state is None else _tensors(folder / state)
        if missing := [name for name in normalised if not any(each.startswith(f"{name}.") for each in tensors)]:
            raise DataError(
                f"{where} has no statistics of {printable(', '.join(missing))[:200]} in {state or 'a state_file'}, so "
                "LeRobot would not normalise: train the policy again"
            )
    return state


def _normalised(config: Mapping[str, Any]) -> list[str]:
    """Return the observations and actions that a step normalises; it ignores those without statistics."""
    modes, chosen = config.get("norm_map", {}), config.get("normalize_observation_keys")
    return [
        str(name)
        for name, feature in config.get("features", {}).items()
        if modes.get(feature["type"], "IDENTITY") != "IDENTITY"
        and (chosen is None or name in chosen or feature["type"] == "ACTION")
    ]


def _tensors(file: Path) -> set[str]:
    """Return the names of the tensors in a safetensors file.

    Raises:
        DataError: if it has no header of at most :data:`_MOST_JSON` bytes.
        OSError: if it cannot be read.
    """
    with open_regular(file) as number, os.fdopen(number, "rb", closefd=False) as stream:
        size = int.from_bytes(stream.read(8), "little")
        if size > _MOST_JSON:
            raise DataError(f"{file} is not a safetensors file: its header would have {size:,} bytes")
        header = parse_json(stream.read(size), str(file))
    return set(header) - {"__metadata__"} if isinstance(header, dict) else set()


def _hash(folder: Path, names: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for name in names:
        with open_regular(folder / name) as number, os.fdopen(number, "rb", closefd=False) as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def _shape(feature: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(whole_number(size, 1, 100_000) for size in feature["shape"])

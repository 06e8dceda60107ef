"""The contents of a run folder: its configuration, its policy and its reward."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_module
from hydra.errors import MissingConfigException
from omegaconf import DictConfig, OmegaConf, open_dict

from ..core import (
    Agent,
    CheckpointError,
    ConfigError,
    DataError,
    EnvSpec,
    Policy,
    Reward,
    SpecError,
    load_config,
    printable,
    reading,
)
from ..core.search_path import inner_hydra
from ..learner import Checkpoint, CheckpointFolder, load_checkpoint
from .allow_list import check_saved, with_current_names
from .base_copy import use_copy
from .composition import build_acting_agent, build_agent, build_reward, has_robot
from .machine_copy import use_machine_copy
from .network_limits import networks_of
from .registration import register_all_configs

OTHER = "use another checkpoint"


def run_config(run: Path) -> DictConfig:
    """Return the configuration of a run folder: the saved values, typed, with current defaults for missing keys.

    The base policy and the machine of the task, if there are any, are the copies in the folder.

    Raises:
        ConfigError: if the folder is not a run, its configuration is damaged, or one of its keys no longer exists.
    """
    file = run / "config.yaml"
    if not file.exists():
        raise ConfigError(f"{run} is not a run folder: it has no config.yaml. Give a folder that robo-rl train made")
    config = complete_config(saved_config(file), file)
    use_copy(config, run)
    use_machine_copy(config, run)
    return config


def acting_config(run: Path, on_robot: bool) -> DictConfig:
    """Return the configuration of a run whose policy is to act now.

    The run may be someone else's, and its configuration sets the limits of a robot. So a robot acts only if a person
    has confirmed them, and it obeys the stops of this user, never a file that the run names.

    Args:
        run: folder of the run.
        on_robot: whether a person has confirmed that the robot may act as the configuration says.

    Raises:
        ConfigError: as :func:`run_config`, and if the run drives a robot and ``on_robot`` is false.
    """
    config = run_config(run)
    note = robot_note(config)
    if note is not None and not on_robot:
        raise ConfigError(
            f"{run / 'config.yaml'} drives a robot. {note}. Read its sections robot and safety, then give on_robot=true"
        )
    if "emergency_stop" in config.safety:
        config.safety.emergency_stop.file = None
    _use_own_cache(config.reward)
    return config


def _use_own_cache(node: Any) -> None:
    """Replace the cache folders that ``endpoint.cache`` names within ``node`` by this user's own."""
    if isinstance(node, DictConfig):
        endpoint = node.get("endpoint")
        if isinstance(endpoint, DictConfig) and "cache" in endpoint:
            endpoint.cache = None
        for key in node:
            _use_own_cache(node[key])


def robot_note(config: DictConfig) -> str | None:
    """Return a line about the robot of ``config`` and its limits; None if there is no robot."""
    if not has_robot(config):
        return None
    robot = f"The robot {printable(str(config.robot.name))!r} acts"
    if "emergency_stop" not in config.safety:
        return f"{robot} without limits or emergency stop (safety=none)"
    off = [
        f"safety.{name}"
        for name in ("workspace", "joints", "barrier", "observations")
        if not config.safety[name].enabled
    ]
    return f"{robot} within the limits of the run's configuration{', without ' if off else ''}{', '.join(off)}"


def saved_config(file: Path) -> DictConfig:
    """Return the contents of a ``config.yaml``, without additions.

    Raises:
        ConfigError: if it is damaged.
    """
    try:
        return load_config(file)
    except (DataError, OSError) as error:
        raise ConfigError(str(error)) from error


RESUMED = frozenset(("logging", "run"))
"""Sections of its configuration that may change when a run is resumed."""


def complete_config(saved: DictConfig, file: Path) -> DictConfig:
    """Return the configuration that a run saved, typed, with current defaults for missing keys.

    Options of a resumption, stored separately under ``resumed``, take precedence. Objects are made only of names that
    :func:`robo_rl.app.allow_packages` and the registered configuration nodes allow.

    Args:
        saved: contents of ``config.yaml``.
        file: path of the file, for messages.

    Raises:
        ConfigError: if one of its keys no longer exists, or it names something that is not allowed.
    """
    saved = with_current_names(saved, file)
    check_saved(saved, file)
    choices = saved.pop("choices", None)
    if not isinstance(choices, DictConfig) or not all(map(_is_choice, choices, choices.values())):
        raise ConfigError(f"{file} was not written by robo-rl train: it does not list the choices that were made")
    resumed = saved.pop("resumed", None) or OmegaConf.create()
    if not isinstance(resumed, DictConfig) or (unexpected := {str(key) for key in resumed} - RESUMED):
        refused = ", ".join(sorted(unexpected)) if isinstance(resumed, DictConfig) else repr(resumed)
        raise ConfigError(
            f"{file}: resumed: expected only the sections {' and '.join(sorted(RESUMED))}, got {refused}. "
            "robo-rl train writes no others: do not use this file unless you know who changed it"
        )
    register_all_configs()
    try:
        with inner_hydra(), initialize_config_module("robo_rl.configs", version_base="1.3"):
            chosen = [f"{group!s}={choice}" for group, choice in choices.items() if choice is not None]
            typed = compose("train", overrides=chosen)
        config = cast(DictConfig, OmegaConf.merge(typed, saved, resumed))
    except MissingConfigException as error:
        if error.missing_cfg_file is None:
            raise
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        raise ConfigError(
            f"{file} was made with {group}={choice}, which is not a choice here. If it is in a folder of yours, add "
            "--config-dir=FOLDER; if it is in a package of yours, install the package"
        ) from error
    except Exception as error:  # Hydra and OmegaConf raise many types if a value has a wrong type
        raise ConfigError(f"{file} does not fit this version of robo-rl: {str(error).partition(chr(10))[0]}") from error
    with open_dict(config):
        config.choices, config.resumed = choices, resumed
        config.pop("allow", None)  # names are allowed by the user who reads a file, never by the file
    return config


def _is_choice(group: Any, choice: Any) -> bool:
    """Return whether these are names of a group and of one of its choices, and not another kind of Hydra override."""
    names = [(group, r"(?!hydra\b)\w+(/\w+)*"), (choice, r"[\w-]+(/[\w-]+)*")][: 1 if choice is None else 2]
    return all(isinstance(name, str) and re.fullmatch(form, name) is not None for name, form in names)


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy from a run folder.

    Attributes:
        policy: the policy.
        spec: spec that it was trained for: observations, actions and their rate.
        config: configuration of the run.
        step: environment steps after which it was saved.
        action_chunk: number of actions that it decides at once.
        checkpoint: folder that it was loaded from.
    """

    policy: Policy
    spec: EnvSpec
    config: DictConfig
    step: int
    action_chunk: int
    checkpoint: Path


def load_policy(
    run: Path, spec: EnvSpec | None = None, checkpoint: str = "best", config: DictConfig | None = None
) -> TrainedPolicy:
    """Return the policy of a run, for an environment of ``spec``.

    Args:
        run: folder of the run.
        spec: spec of the environment to act in, which must match that of the training. None: unknown.
        checkpoint: ``best``, ``newest`` or the number of a step.
        config: configuration of the run, if the caller has read it: that takes a third of a second.

    Raises:
        CheckpointError: if there is no such checkpoint, it is damaged, or it was trained for another spec.
    """
    config = run_config(run) if config is None else config
    folder, loaded, spec = _load_part(run, checkpoint, spec, "policy")
    with networks_of(folder, "policy"):
        agent = build_agent(config.agent, spec, config.seed)
    with reading(f"{run}: the policy of step {loaded.step}", CheckpointError, OTHER):
        agent.load_policy(loaded.parts["policy"])
    return TrainedPolicy(agent, spec, config, loaded.step, agent.config.action_chunk, folder)


@dataclass(frozen=True)
class TrainedAgent:
    """An agent from a run folder, on the CPU; the attributes are as in :class:`TrainedPolicy`."""

    agent: Agent
    spec: EnvSpec
    config: DictConfig
    step: int


def load_agent(run: Path, spec: EnvSpec | None = None, checkpoint: str = "best") -> TrainedAgent:
    """Return the agent of a run with everything it has learned, including critics. Arguments as in :func:`load_policy`.

    Raises:
        CheckpointError: as :func:`load_policy`.
    """
    config = run_config(run)
    folder, loaded, spec = _load_part(run, checkpoint, spec, "agent")
    if "agent" not in loaded.parts:
        raise CheckpointError(f"{run}: its checkpoint of step {loaded.step} has a policy but no agent to load")
    with networks_of(folder, "agent"):
        agent = build_acting_agent(config.agent, spec, config.seed)
    with reading(f"{run}: the agent of step {loaded.step}", CheckpointError, OTHER):
        agent.load(loaded.parts["agent"])
    return TrainedAgent(agent, spec, config, loaded.step)


@dataclass(frozen=True)
class TrainedReward:
    """The reward from a run folder, the spec it was trained for, and the environment steps after which it was saved."""

    reward: Reward
    spec: EnvSpec
    config: DictConfig
    step: int


def load_reward(run: Path, spec: EnvSpec | None = None, checkpoint: str = "newest") -> TrainedReward:
    """Return the reward of a run, with its modules from a checkpoint. Arguments as in :func:`load_policy`.

    Raises:
        CheckpointError: as :func:`load_policy`.
    """
    config = run_config(run)
    _use_own_cache(config.reward)
    folder, loaded, spec = _load_part(run, checkpoint, spec, "reward")
    with networks_of(folder, "reward"):
        reward = build_reward(config.reward, spec, config.seed)
    if reward.scorer is not None:
        with reading(f"{run}: the reward of step {loaded.step}", CheckpointError, OTHER):
            reward.scorer.load(loaded.parts["reward"])
    return TrainedReward(reward, spec, config, loaded.step)


def checkpoint_of(run: Path, checkpoint: str) -> Path:
    """Return the folder of a checkpoint of a run: ``best``, ``newest`` or the number of a step.

    Raises:
        CheckpointError: if there is no such checkpoint.
    """
    folder = CheckpointFolder(run / "checkpoints")
    if checkpoint == "best":
        path = folder.best()
    elif checkpoint == "newest":
        path = next(reversed(folder.folders()), None)
    else:
        path = next((p for p in folder.folders() if int(p.name.removeprefix("step_")) == _step(checkpoint)), None)
    if path is None:
        held = ", ".join(str(int(p.name.removeprefix("step_"))) for p in folder.folders())
        if not held:
            raise CheckpointError(
                f"{run} has no checkpoint {checkpoint!r}, nor any other; resume the run with resume={run}"
            )
        raise CheckpointError(f"{run} has no checkpoint {checkpoint!r}; choose best, newest or a step of: {held}")
    return path


def _load_part(run: Path, checkpoint: str, spec: EnvSpec | None, part: str) -> tuple[Path, Checkpoint, EnvSpec]:
    """Return folder and spec of a checkpoint, and it with only the named part, or without it if it has none."""
    path = checkpoint_of(run, checkpoint)
    loaded = load_checkpoint(path, only=(part,))
    try:
        own_spec = EnvSpec.from_json(loaded.facts.get("spec", {}))
    except SpecError as error:
        raise CheckpointError(f"the checkpoint of step {loaded.step} does not match: {error}") from error
    differences = own_spec.differences(spec) if spec is not None else []
    if differences:
        raise CheckpointError(f"{path} was trained for another environment: " + "; ".join(differences))
    return path, loaded, own_spec


def _step(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return math.nan

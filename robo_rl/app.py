"""Composition: a configuration in, running objects out.

The configuration names what to make by ``_target_``; this module makes it. So a user's own task, agent or robot in
a package of their own needs a line of configuration and no registration here.
"""

import importlib.metadata
import math
from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, cast

import torch
from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from .actor import InterventionConfig
from .agents import bc, drq, sac
from .core import (
    Agent,
    CheckpointError,
    ConfigError,
    EnvBackend,
    EnvSpec,
    Policy,
    ResetController,
    Reward,
    RewardConfig,
    RoboRLError,
    config_node,
    require,
)
from .learner import Checkpoint, CheckpointFolder, load_checkpoint
from .replay.interchange import register_configs as register_formats
from .reset import register_configs as register_resets
from .safety import EmergencyStop
from .safety import register_configs as register_safety
from .telemetry import register_configs as register_logging
from .transport import TransportConfig
from .web import WebConfig


@dataclass(frozen=True)
class RunConfig:
    """How long a run is and what it leaves behind.

    Attributes:
        dir: folder of the run.
        overwrite: replace a run that the folder holds.
        env_steps: environment steps in all.
        evaluation_interval: environment steps between evaluations; 0: only at the end.
        evaluation_episodes: episodes of each of them.
        final_evaluation_episodes: episodes of the evaluation at the end, with start states of its own.
        video_episodes: how many of those are filmed; 0: none.
        checkpoint_interval: environment steps between checkpoints; there is one after each evaluation too.
        keep_checkpoints: how many of the newest checkpoints stay, besides the best.
        replay_capacity: observations that the online replay holds: one more for each episode than transitions.
        stop_at_success_rate: end the run when an evaluation reaches this rate (0 to 1); null: never.
        stop_at_return: end the run when an evaluation reaches this mean return; null: never.
    """

    dir: str = "???"
    overwrite: bool = False
    env_steps: int = 6_000
    evaluation_interval: int = 500
    evaluation_episodes: int = 50
    final_evaluation_episodes: int = 100
    video_episodes: int = 4
    checkpoint_interval: int = 1_000
    keep_checkpoints: int = 2
    replay_capacity: int = 200_000
    stop_at_success_rate: float | None = None
    stop_at_return: float | None = None

    def __post_init__(self) -> None:
        for key in ("env_steps", "evaluation_interval", "video_episodes"):
            require(getattr(self, key) >= 0, f"run.{key}", "0 or more", getattr(self, key))
        for key in ("evaluation_episodes", "final_evaluation_episodes", "checkpoint_interval", "keep_checkpoints"):
            require(getattr(self, key) >= 1, f"run.{key}", "1 or more", getattr(self, key))
        require(self.replay_capacity >= 2, "run.replay_capacity", "2 or more", self.replay_capacity)
        rate = self.stop_at_success_rate
        require(rate is None or 0 < rate <= 1, "run.stop_at_success_rate", "null or in (0, 1]", rate)


@dataclass(frozen=True)
class DemonstrationsConfig:
    """Where demonstrations come from.

    Attributes:
        path: data set to read; null: record them from the task's scripted expert into the run folder.
        episodes: how many to use; 0: none.
        noise: standard deviation of the Gaussian noise on the expert's actions when they are recorded.
    """

    path: str | None = None
    episodes: int = 20
    noise: float = 0.3

    def __post_init__(self) -> None:
        require(self.episodes >= 0, "demonstrations.episodes", "0 or more", self.episodes)
        require(0 <= self.noise <= 1, "demonstrations.noise", "in [0, 1]", self.noise)


@dataclass(frozen=True)
class LocalRuntimeConfig:
    """Actor and learner in one process, in turn: deterministic.

    Attributes:
        threads: threads for PyTorch and the native update; null: one for each core that this process may use.
    """

    name: str = "local"
    threads: int | None = None

    def __post_init__(self) -> None:
        require(self.threads is None or self.threads >= 1, "runtime.threads", "null or 1 or more", self.threads)


@dataclass(frozen=True)
class AsyncRuntimeConfig:
    """Learner and actors in processes of their own, here or on other machines.

    Ratios are learner steps to environment steps (both after ``agent.learning_starts``); a learner step is
    ``agent.update_to_data`` updates of the critics. The learner waits where it would exceed ``max_ratio``. An actor
    never waits within an episode; it begins no other one while the learner is below ``min_ratio``.

    Attributes:
        threads: threads for PyTorch and the native update of the learner; null: one for each core it may use.
        actors: actors that the learner starts on this machine; others may join at ``transport.address``.
        min_ratio: see above; 0: actors are never held.
        max_ratio: see above.
        publish_interval: learner steps between the policies that actors get.
        restarts: how often an actor that failed is started again in all.
        finish_seconds: how long the learner waits at the end for what actors still hold [s].
        transport: the wire. Without an address: a Unix socket for the learner's own actors alone.
    """

    name: str = "async"
    threads: int | None = None
    actors: int = 1
    min_ratio: float = 0.9
    max_ratio: float = 1.0
    publish_interval: int = 5
    restarts: int = 5
    finish_seconds: float = 20.0
    transport: TransportConfig = field(default_factory=TransportConfig)

    def __post_init__(self) -> None:
        require(self.threads is None or self.threads >= 1, "runtime.threads", "null or 1 or more", self.threads)
        for key in ("actors", "restarts", "finish_seconds"):
            require(getattr(self, key) >= 0, f"runtime.{key}", "0 or more", getattr(self, key))
        require(self.max_ratio > 0, "runtime.max_ratio", "above 0", self.max_ratio)
        require(0 <= self.min_ratio <= self.max_ratio, "runtime.min_ratio", "0 to runtime.max_ratio", self.min_ratio)
        require(self.publish_interval >= 1, "runtime.publish_interval", "1 or more", self.publish_interval)
        given = self.actors > 0 or self.transport.address is not None
        require(given, "runtime.transport.address", "given where runtime.actors is 0", None)


@dataclass(frozen=True)
class RayRuntimeConfig(AsyncRuntimeConfig):
    """As ``async``, with a learner and simulators that Ray places and starts again. Further attributes:

    Attributes:
        actors: processes of simulators at the start; others may join, and the number may be changed while it runs.
        restarts: how often Ray starts each process again that ended before its time, the learner's too.
        cluster: ``auto`` (the cluster that this machine is part of) or HOST:PORT of its head; null: a Ray of this run's
            own, on this machine alone.
        environments: simulators in each process, in threads of their own.
        learner_resources: what Ray reserves for the learner: ``CPU``, ``GPU``, and what a cluster defines of its own.
        actor_resources: the same for each process of simulators.
    """

    name: str = "ray"
    cluster: str | None = None
    environments: int = 1
    learner_resources: dict[str, float] = field(default_factory=lambda: {"CPU": 1.0})
    actor_resources: dict[str, float] = field(default_factory=lambda: {"CPU": 1.0})

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.environments >= 1, "runtime.environments", "1 or more", self.environments)
        for key in ("learner_resources", "actor_resources"):
            amounts = getattr(self, key)
            require(min(amounts.values(), default=0) >= 0, f"runtime.{key}", "0 or more of each", amounts)
        reachable = self.cluster is None or self.transport.address is not None
        require(
            reachable,
            "runtime.transport.address",
            "given where runtime.cluster is: simulators elsewhere join there",
            None,
        )


@dataclass(frozen=True)
class ActorConfig:
    """One robot or simulator that acts for a learner elsewhere.

    Attributes:
        name: its identity, unique within the run; with certificates, the name in them.
        spool: folder that keeps its steps until the learner has stored them; one for each actor.
        spool_bytes: most bytes to keep; collecting pauses where that is reached.
        sync_seconds: time between synchronisations of the spool with the disk: what a power cut may cost [s].
        finish_seconds: how long it waits at its end for the learner to store what is left [s].
        threads: threads for PyTorch.
        parent: process without which it ends by itself; null: none.
    """

    name: str = "actor"
    spool: str = "???"
    spool_bytes: int = 4 << 30
    sync_seconds: float = 1.0
    finish_seconds: float = 20.0
    threads: int = 1
    parent: int | None = None

    def __post_init__(self) -> None:
        for key in ("spool_bytes", "threads"):
            require(getattr(self, key) >= 1, f"actor.{key}", "1 or more", getattr(self, key))
        require(self.sync_seconds > 0, "actor.sync_seconds", "above 0", self.sync_seconds)
        require(self.finish_seconds >= 0, "actor.finish_seconds", "0 or more", self.finish_seconds)


def register_configs() -> None:
    """Offer the configuration classes of ``robo_rl`` to Hydra."""
    store = ConfigStore.instance()
    sections = {
        "run": config_node(None, RunConfig),
        "demonstrations": config_node(None, DemonstrationsConfig),
        "intervention": config_node(None, InterventionConfig),
    }
    store.store(name="train_schema", node=OmegaConf.create(sections))
    store.store(group="runtime", name="local", node=config_node(None, LocalRuntimeConfig))
    store.store(group="runtime", name="async", node=config_node(None, AsyncRuntimeConfig))
    store.store(group="runtime", name="ray", node=config_node(None, RayRuntimeConfig))
    wire = {"transport": config_node(None, TransportConfig)}
    store.store(name="web_schema", node=OmegaConf.create({"web": config_node(None, WebConfig)}))
    store.store(name="control_schema", node=OmegaConf.create(wire))
    store.store(name="actor_schema", node=OmegaConf.create(wire | {"actor": config_node(None, ActorConfig)}))
    sac.register_configs()
    bc.register_configs()
    drq.register_configs()
    register_safety()
    register_resets()
    register_logging()
    register_formats()


def register_all_configs() -> None:
    """Offer the configuration classes of every installed package that has the entry point ``robo_rl.config``."""
    for entry in importlib.metadata.entry_points(group="robo_rl.config"):
        entry.load()()


def build(node: DictConfig, **arguments: Any) -> Any:
    """Call the node's ``_target_`` with its fields and ``arguments``.

    Raises:
        ConfigError: if a value is out of range, or the target cannot be imported.
    """
    try:
        factory = instantiate(node, _partial_=True, _convert_="object")
        return factory(**arguments)
    except RoboRLError:
        raise
    except Exception as error:
        cause = error.__cause__
        while cause is not None and not isinstance(cause, RoboRLError):
            cause = cause.__cause__
        if cause is not None:
            raise cause from error
        if "Error locating target" in str(error):
            raise ConfigError(f"_target_ {node.get('_target_')!r} cannot be imported: {error.__cause__}") from error
        raise


def build_backend(config: DictConfig, simulated: bool = False) -> EnvBackend:
    """Make what ``config`` names: a robot or simulator before its task, with safety around it.

    Args:
        config: with the sections ``task``, ``safety`` and, for a robot, ``robot``.
        simulated: make the simulation of the task even where there is a robot.
    """
    backend = cast(EnvBackend, build(config.task))
    try:
        if has_robot(config) and not simulated:
            backend = cast(EnvBackend, build(config.robot, simulation=backend))
        return cast(EnvBackend, build(config.safety, backend=backend))
    except BaseException:
        backend.close()
        raise


def has_robot(config: DictConfig) -> bool:
    """Return whether ``config`` names a robot, so that its task alone is not what acts."""
    return "robot" in config and config.robot is not None


def emergency_stop(config: DictConfig, reason: str) -> Callable[[], None] | None:
    """Return what presses the emergency stop that ``config.safety`` names; None with ``safety=none``."""
    if "emergency_stop" not in config.safety:
        return None
    file = config.safety.emergency_stop.file
    button = EmergencyStop(None if file is None else Path(file))

    def press() -> None:
        button.press(reason)

    return press


def build_agent(node: DictConfig, spec: EnvSpec, seed: int) -> Agent:
    """Make the agent that ``agent`` configures, for an environment of ``spec``."""
    return cast(Agent, build(node, spec=spec, seed=seed))


def agent_facts(node: DictConfig) -> dict[str, Any]:
    """Return the agent's configuration as JSON values: what an actor and its learner must agree on."""
    facts = OmegaConf.to_container(node, resolve=True, enum_to_str=True)
    assert isinstance(facts, dict)
    return {str(key): value for key, value in facts.items()}


def build_reward(node: DictConfig, spec: EnvSpec, seed: int) -> Reward:
    """Make the reward that ``reward`` configures, for an environment of ``spec``."""
    return cast(RewardConfig, build(node)).make(spec, seed)


def build_resets(node: DictConfig, backend: EnvBackend, seed: int) -> ResetController | None:
    """Make what begins episodes of ``backend``, as ``reset`` configures it; None: the backend's own reset does."""
    return cast("ResetController | None", build(node, spec=backend.spec, robot=backend.robot, seed=seed))


def section(config: DictConfig, name: str) -> Any:
    """Return a part of the configuration as its dataclass, which checks the values."""
    return OmegaConf.to_object(config[name])


class Components:
    """The objects of a run.

    Attributes:
        backend: where the agent acts.
        agent: what learns.
        reward: makes one number of the reward terms, some of which it may compute itself.
        resets: begins the episodes of the training, or None.
    """

    def __init__(self, config: DictConfig) -> None:
        threads = section(config, "runtime").threads
        if threads is not None:
            torch.set_num_threads(threads)
        self._config = config
        self.backend = build_backend(config)
        self.reward = build_reward(config.reward, self.backend.spec, config.seed)
        self.agent = build_agent(config.agent, self.backend.spec, config.seed)
        self.resets = build_resets(config.reset, self.backend, config.seed)
        self._evaluation_backend: EnvBackend | None = None

    def evaluation_backend(self) -> EnvBackend:
        """Return a second backend of the same task: evaluations leave the training episode alone.

        There is one robot, which training uses: where there is one, this is the simulation, with the same observations
        and actions.
        """
        if self._evaluation_backend is None:
            self._evaluation_backend = build_backend(self._config, simulated=True)
        return self._evaluation_backend

    def close(self) -> None:
        """Close the backends."""
        self.backend.close()
        if self._evaluation_backend is not None:
            self._evaluation_backend.close()


def _open_dictionaries(node: DictConfig, inside: bool = False) -> None:
    """Let dictionaries that are fields of a configuration class take further keys, as ``+`` on the command line does.

    Args:
        node: of a typed configuration.
        inside: whether it is part of a configuration class.
    """
    structured = is_dataclass(OmegaConf.get_type(node))
    if inside and not structured:
        OmegaConf.set_struct(node, False)
    for key in node:
        child = node._get_node(key)
        if isinstance(child, DictConfig) and not child._is_none() and not child._is_missing():
            _open_dictionaries(child, inside or structured)


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy out of a run folder."""

    policy: Policy
    config: DictConfig
    step: int


def run_config(run: Path) -> DictConfig:
    """Return the configuration of a run folder: what it saved, typed and completed by today's defaults.

    Raises:
        ConfigError: if the folder is no run, or a key of its configuration no longer exists.
    """
    file = run / "config.yaml"
    if not file.exists():
        raise ConfigError(f"{run} is no run folder: it has no config.yaml. Give a folder that robo-rl train made")
    return complete_config(cast(DictConfig, OmegaConf.load(file)), file)


def complete_config(saved: DictConfig, file: Path) -> DictConfig:
    """Return the configuration that a run saved, typed and completed by today's defaults.

    Args:
        saved: as it is in ``config.yaml``.
        file: where it is from, for errors.

    Raises:
        ConfigError: if a key of it no longer exists.
    """
    saved = saved.copy()
    choices = saved.pop("choices")
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_module("robo_rl.configs", version_base="1.3"):
            typed = compose("train", overrides=[f"{group}={choice}" for group, choice in choices.items()])
        _open_dictionaries(typed)
        config = cast(DictConfig, OmegaConf.merge(typed, saved))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(f"{file} does not fit this version of robo-rl: {str(error).partition(chr(10))[0]}") from error
    finally:
        if outer is not None:
            GlobalHydra.instance().initialize(outer)
    with open_dict(config):
        config.choices = choices
    return config


def load_policy(run: Path, spec: EnvSpec, checkpoint: str = "best") -> TrainedPolicy:
    """Return the policy of a run, for an environment of ``spec``.

    Args:
        run: folder of the run.
        spec: where the policy will act; refused unless it is what the policy was trained for.
        checkpoint: ``best``, ``newest`` or the number of a step.

    Raises:
        CheckpointError: if there is no such checkpoint, it is damaged, or it was trained for another spec.
    """
    config = run_config(run)
    loaded = _load_part(run, spec, checkpoint, "policy")
    agent = build_agent(config.agent, spec, config.seed)
    agent.load_policy(loaded.parts["policy"])
    return TrainedPolicy(agent, config, loaded.step)


@dataclass(frozen=True)
class TrainedReward:
    """The reward out of a run folder, as it was at a step."""

    reward: Reward
    config: DictConfig
    step: int


def load_reward(run: Path, spec: EnvSpec, checkpoint: str = "newest") -> TrainedReward:
    """Return the reward of a run, its modules as they were in a checkpoint. Arguments as of :func:`load_policy`.

    Raises:
        CheckpointError: as :func:`load_policy`.
    """
    config = run_config(run)
    reward = build_reward(config.reward, spec, config.seed)
    loaded = _load_part(run, spec, checkpoint, "reward")
    if reward.scorer is not None:
        reward.scorer.load(loaded.parts["reward"])
    return TrainedReward(reward, config, loaded.step)


def _load_part(run: Path, spec: EnvSpec, checkpoint: str, part: str) -> Checkpoint:
    """Return a checkpoint of a run with one part alone, or without it where it has none."""
    folder = CheckpointFolder(run / "checkpoints")
    if checkpoint == "best":
        path = folder.best()
    elif checkpoint == "newest":
        path = next(reversed(folder.folders()), None)
    else:
        path = next((p for p in folder.folders() if int(p.name.removeprefix("step_")) == _step(checkpoint)), None)
    if path is None:
        held = ", ".join(str(int(p.name.removeprefix("step_"))) for p in folder.folders()) or "none"
        raise CheckpointError(f"{run} has no checkpoint {checkpoint!r}; it holds the steps: {held}")
    loaded = load_checkpoint(path, only=(part,))
    differences = EnvSpec.from_json(loaded.facts["spec"]).differences(spec)
    if differences:
        raise CheckpointError(f"{path} was trained for another environment: " + "; ".join(differences))
    return loaded


def _step(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return math.nan

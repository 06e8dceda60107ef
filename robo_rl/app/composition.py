"""Functions that make running objects from a configuration."""

import functools
import importlib.metadata
from typing import Any, cast

import torch
from hydra.core.config_store import ConfigStore
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..actor import InterventionConfig
from ..agents import bc, cpl, drq, flow, fql, iql, qc, sac, xqc
from ..core import (
    Agent,
    ConfigError,
    EnvSpec,
    Reward,
    RewardConfig,
    RoboRLError,
    config_node,
    networks_within_memory,
    section,
)
from ..core.search_path import register_search_path
from ..replay.interchange import register_configs as register_formats
from ..reset import register_configs as register_resets
from ..residual import BASE_POLICY, BaseConfig, ResidualAgent
from ..safety import register_configs as register_safety
from ..telemetry import register_configs as register_logging
from ..transport import TransportConfig
from ..transport import register_configs as register_transport
from ..web import register_configs as register_pages
from .config import (
    ActorConfig,
    AsyncRuntimeConfig,
    DemonstrationsConfig,
    LocalRuntimeConfig,
    RayRuntimeConfig,
    RunConfig,
    StartConfig,
)

ENTRY_POINTS = "robo_rl.config"
"""Entry-point group of packages that register configuration nodes."""


def register_configs() -> None:
    """Register the configuration classes of ``robo_rl`` with Hydra."""
    store = ConfigStore.instance()
    sections = {
        "run": config_node(None, RunConfig),
        "start": config_node(None, StartConfig),
        "base": config_node(None, BaseConfig),
        "demonstrations": config_node(None, DemonstrationsConfig),
        "intervention": config_node(None, InterventionConfig),
    }
    store.store(name="train_schema", node=OmegaConf.create(sections))
    store.store(group="runtime", name="local", node=config_node(None, LocalRuntimeConfig))
    store.store(group="runtime", name="async", node=config_node(None, AsyncRuntimeConfig))
    store.store(group="runtime", name="ray", node=config_node(None, RayRuntimeConfig))
    wire = {"transport": config_node(None, TransportConfig)}
    act = {"actor": config_node(None, ActorConfig), "intervention": config_node(None, InterventionConfig)}
    act["base"] = config_node(None, BaseConfig)
    store.store(name="actor_schema", node=OmegaConf.create(wire | act))
    sac.register_configs()
    bc.register_configs()
    cpl.register_configs()
    drq.register_configs()
    flow.register_configs()
    fql.register_configs()
    iql.register_configs()
    qc.register_configs()
    xqc.register_configs()
    register_pages()
    register_transport()
    register_safety()
    register_resets()
    register_logging()
    register_formats()


@functools.cache
def register_all_configs() -> None:
    """Register the configuration classes of all installed packages with the entry point ``robo_rl.config``, once.

    Afterwards Hydra also searches the folders in ``ROBO_RL_CONFIG_PATH``.
    """
    register_search_path()
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        entry.load()()


def build(node: DictConfig, **arguments: Any) -> Any:
    """Call the node's ``_target_`` with its fields and ``arguments``; return the result.

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
        if isinstance(error, OmegaConfBaseException):
            raise ConfigError(" ".join(str(error).split())[:500]) from error
        if "Error locating target" in str(error):
            raise ConfigError(f"_target_ {node.get('_target_')!r} cannot be imported: {error.__cause__}") from error
        raise


def has_robot(config: DictConfig) -> bool:
    """Return whether ``config`` names a robot in addition to its task."""
    return "robot" in config and config.robot is not None


def is_relative(config: DictConfig) -> bool:
    """Return whether observations are relative to the pose in which an episode begins: :class:`RelativeBackend`."""
    return bool(OmegaConf.select(config, "task.observation.relative", default=False))


def build_agent(node: DictConfig, spec: EnvSpec, seed: int) -> Agent:
    """Make the agent of the section ``agent``, for an environment of ``spec``.

    If the environment observes a base policy, the agent corrects it: :class:`~robo_rl.residual.ResidualAgent`.

    Raises:
        ConfigError: if a value is out of range, or the networks are too large for this machine.
    """
    with networks_within_memory():
        agent = cast(Agent, build(node, spec=spec, seed=seed))
    return ResidualAgent(agent, spec) if BASE_POLICY in spec.extra else agent


def build_acting_agent(node: DictConfig, spec: EnvSpec, seed: int) -> Agent:
    """Make an agent, as :func:`build_agent` does, that acts on the CPU with the policies of another agent.

    It decides on one observation at a time, for which a GPU would only add delay.
    """
    chosen = node.copy()
    if "device" in chosen:
        chosen.device = "cpu"
    return build_agent(chosen, spec, seed)


def agent_facts(node: DictConfig) -> dict[str, Any]:
    """Return the agent's configuration as JSON values, on which an actor and its learner must agree."""
    facts = OmegaConf.to_container(node, resolve=True, enum_to_str=True)
    assert isinstance(facts, dict)
    return {str(key): value for key, value in facts.items()}


def build_reward(node: DictConfig, spec: EnvSpec, seed: int) -> Reward:
    """Make the reward of the section ``reward``, for an environment of ``spec``."""
    with networks_within_memory():
        return cast(RewardConfig, build(node)).make(spec, seed)


def set_threads(config: DictConfig) -> None:
    """Set the number of the learner's threads as in ``config.runtime``, or leave one core to a robot's actor."""
    runtime: LocalRuntimeConfig | AsyncRuntimeConfig = section(config, "runtime")
    threads = runtime.threads
    if threads is None and isinstance(runtime, AsyncRuntimeConfig) and runtime.actors and has_robot(config):
        threads = max(torch.get_num_threads() - 1, 1)  # a robot's control loop must never wait
    if threads is not None:
        torch.set_num_threads(threads)

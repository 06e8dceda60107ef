"""Functions that make running objects from a configuration."""

from typing import Any, cast

import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..core import (
    Agent,
    ConfigError,
    Constraints,
    EnvBackend,
    EnvSpec,
    Reward,
    RewardConfig,
    RoboRLError,
    find_constraints,
    networks_within_memory,
    section,
    unmeasured,
)
from ..residual import BASE_POLICY, ResidualAgent
from .config import AsyncRuntimeConfig, LocalRuntimeConfig


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


def observation_options(config: DictConfig) -> DictConfig:
    """Return the section ``task.observation``; empty for a task that has none."""
    return cast(DictConfig, OmegaConf.select(config, "task.observation", default=OmegaConf.create()))


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
    """Make the reward of the section ``reward``, for an environment of ``spec``.

    Raises:
        ConfigError: if a value is out of range, or does not suit the environment.
    """
    constraints = node.get("constraints")
    others = [str(key) for key in node if key != "constraints"]
    with networks_within_memory():
        reward = cast(RewardConfig, build(OmegaConf.masked_copy(node, others))).make(spec, seed)
        if not constraints:
            return reward
        entries = OmegaConf.to_container(constraints, resolve=True)
        target = OmegaConf.create({"_target_": "robo_rl.rewards.constraints.constrained"})
        return cast(Reward, build(target, reward=reward, entries=entries, spec=spec))


def measured_constraints(reward: Reward, backend: EnvBackend) -> Constraints | None:
    """Return the constraints of a reward; None if it has none.

    Raises:
        ConfigError: if they limit something that the robot does not measure.
    """
    constraints = find_constraints(reward)
    if constraints is not None and (missing := sorted(constraints.reads & unmeasured(backend))):
        raise ConfigError(
            f"reward.constraints limits {', '.join(missing)}, which the robot does not measure: limit something else, "
            "or configure a source of it in the section robot"
        )
    return constraints


def set_threads(config: DictConfig) -> None:
    """Set the number of the learner's threads as in ``config.runtime``, or leave one core to a robot's actor."""
    runtime: LocalRuntimeConfig | AsyncRuntimeConfig = section(config, "runtime")
    threads = runtime.threads
    if threads is None and isinstance(runtime, AsyncRuntimeConfig) and runtime.actors and has_robot(config):
        threads = max(torch.get_num_threads() - 1, 1)  # a robot's control loop must never wait
    if threads is not None:
        torch.set_num_threads(threads)

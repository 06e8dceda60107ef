"""The expert that intervenes in simulation, as configured by ``intervention``."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..actor import InterventionConfig, Interventions, SimulatedIntervention, SimulatedOperator
from ..core import Agent, ConfigError, Critic, EnvBackend, Observation, derive_seed, require
from ..residual import BaseActionBackend
from .trained import load_agent


class _Reference:
    """A trained agent as an expert.

    Args:
        agent: an agent that is no longer trained.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def reset(self) -> None:
        """Do nothing, as there is no state to forget."""

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return the action (A,) of the agent's policy without exploration.

        This is called in every step, while others act too, so only the first action of a chunk is ever valid.
        """
        self._agent.forget_plan(explore=False)
        return self._agent.act(observation, explore=False)


def make_intervention(config: InterventionConfig, backend: EnvBackend, seed: int) -> Interventions | None:
    """Return the expert that intervenes now and then, or None.

    Args:
        config: who intervenes, and when.
        backend: backend of the policy.
        seed: seed of the expert and of the times of its interventions.

    Raises:
        CheckpointError: if the reference cannot be loaded, or was trained for another environment.
        ConfigError: if ``criterion`` is ``value``, and the reference has no critics of single actions, or ``operator``,
            and the task measures no progress.
    """
    if config.criterion == "never":
        return None
    if config.reference is None:
        expert = backend.expert(derive_seed(seed, "intervention"))
        if config.criterion == "operator":
            return SimulatedOperator(config, expert, backend.spec, seed)
        return SimulatedIntervention(config, expert, seed)
    # The expert acts alone, without the base policy that the agent corrects.
    spec = backend.inner.spec if isinstance(backend, BaseActionBackend) else backend.spec
    agent = load_agent(Path(config.reference), spec, config.reference_checkpoint).agent
    critic = agent if isinstance(agent, Critic) else None
    if config.criterion == "value" and critic is None:
        raise ConfigError(
            f"intervention.criterion=value needs critics, which the agent of intervention.reference={config.reference} "
            "does not have: choose a run of agent=rlpd, sac or redq"
        )
    if config.criterion == "value":
        chunk = agent.config.action_chunk
        needed = "1 in the run of intervention.reference for intervention.criterion=value, which judges single actions"
        require(chunk == 1, "agent.action_chunk", needed, chunk)
    return SimulatedIntervention(config, _Reference(agent), seed, critic)

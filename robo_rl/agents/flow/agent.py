"""The agent of behaviour cloning by flow matching, from demonstrations or interventions."""

from typing import Any

import torch
from numpy import float32
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, EnvSpec, Metrics, Observation, derive_seed

from ..parts.adam import Adam
from ..parts.cloning_agent import CloningAgent
from ..parts.flow import FlowPolicy, descend_flow
from .config import FlowCloningConfig


class FlowCloning(CloningAgent):
    """An agent that learns the distribution of demonstrated action chunks, and acts by its samples."""

    def __init__(self, config: FlowCloningConfig, spec: EnvSpec, seed: int) -> None:
        policy = FlowPolicy(config, spec, seed)
        super().__init__(config, policy)
        self.config = config
        self._optimiser = Adam(policy.parameters, config.learning_rate)
        self._noise = torch.Generator().manual_seed(derive_seed(seed, "agent", "update"))
        self._generators = {"update": self._noise} | policy.generators()

    def act(self, observation: Observation, *, explore: bool) -> NDArray[float32]:
        """Return an action (A,) in [-1, 1] of a sampled chunk, from the averaged policy unless ``explore``."""
        return self._policy.act(observation, explore=explore)

    @torch.no_grad()
    def _clone(self, batch: Batch) -> Metrics:
        """Take one step on a minibatch; return ``flow_loss``, the mean squared error of velocities before it."""
        observation = torch.from_numpy(self._policy.observations.rows(batch))
        chunk = torch.from_numpy(batch["proposed_action"])
        self._updates += 1
        step, activation = int(self._updates), self.config.activation
        metrics = {"flow_loss": float(descend_flow(self._optimiser, observation, chunk, self._noise, activation, step))}
        self._require_finite(metrics, step)
        self._policy.average(max(self.config.actor_tau, 1 / step))
        return metrics

    def _slots(self) -> dict[str, Tensor]:
        policy = self._policy
        return policy.slots() | policy.plan_slots() | self._optimiser.slots() | {"updates": self._updates}


def make_flow(*, spec: EnvSpec, seed: int, **fields: Any) -> FlowCloning:
    """Make the agent from the fields of :class:`FlowCloningConfig`."""
    return FlowCloning(FlowCloningConfig(**fields), spec, seed)

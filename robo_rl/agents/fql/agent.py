"""The agent of flow Q-learning (Park et al. 2025)."""

from typing import Any

import torch
from torch import Tensor

from robo_rl.core import EnvSpec, Metrics, derive_seed

from ..parts.flow import initialise_flow, sample_flow
from ..parts.flow_actor_critic import initialise_critics
from ..parts.native_flow_agent import NativeFlowAgent
from ..parts.networks import Parameters, critic_values
from .config import FQLConfig
from .policy import OneStepPolicy, one_step

LEAST_SCALE = 1e-6
"""Lower bound of the mean magnitude of values by which the actor's loss is divided."""


class FQL(NativeFlowAgent):
    """An agent whose actor turns noise into a chunk in one step; see :class:`FQLConfig`.

    The actor is distilled from the flow: its loss is the squared distance to the chunk to which the flow moves the same
    noise, minus the mean value of its own chunk. No gradient goes through the steps of the flow. Before the critics
    learn, the actor is distilled only.
    """

    config: FQLConfig

    def __init__(self, config: FQLConfig, spec: EnvSpec, seed: int) -> None:
        policy = OneStepPolicy(config, spec, seed)
        inputs, size = policy.input_size, policy.action_size
        sources = {name: torch.Generator().manual_seed(derive_seed(seed, "agent", name)) for name in ("flow", "critic")}
        networks = initialise_flow(config, inputs, size, sources["flow"])
        networks |= initialise_critics(config, inputs + size, sources["critic"])
        super().__init__(config, policy, networks, seed)

    def _extract(self, observation: Tensor, *, use_critics: bool) -> Metrics:
        """Take a step of the actor; return ``distillation_loss`` and, with critics, ``actor_q``, its mean value."""
        config, parameters = self.config, self._parameters
        noise = torch.randn(len(observation), self._policy.action_size, generator=self._noise)
        moved = sample_flow(parameters, observation, noise, config)

        def actor_loss(actor: Parameters) -> tuple[Tensor, dict[str, Tensor]]:
            chunk = one_step(actor, observation, noise, config.activation)
            distillation = (chunk - moved).square().mean()
            loss, metrics = config.distillation_weight * distillation, {"distillation_loss": distillation.detach()}
            if use_critics:
                values = critic_values(parameters, "critic", observation, chunk.clamp(-1, 1), config.activation).mean(0)
                scale = values.detach().abs().mean().clamp(min=LEAST_SCALE) if config.normalise_q else 1.0
                loss, metrics["actor_q"] = loss - values.mean() / scale, values.detach().mean()
            return loss, metrics

        gradients, (_, metrics) = torch.func.grad_and_value(actor_loss, has_aux=True)(self._optimiser.network("actor"))
        self._optimiser.move(gradients, int(self._updates))
        return {name: float(value) for name, value in metrics.items()}


def make_fql(*, spec: EnvSpec, seed: int, **fields: Any) -> FQL:
    """Make the agent from the fields of :class:`FQLConfig`."""
    return FQL(FQLConfig(**fields), spec, seed)

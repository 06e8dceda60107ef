"""The agent: flow Q-learning (Park et al. 2025)."""

from typing import Any

import torch
from torch import Tensor

from robo_rl.core import EnvSpec, Metrics, derive_seed

from ..parts.flow import initialise_flow, sample_flow
from ..parts.flow_actor_critic import FlowActorCritic, initialise_critics
from ..parts.networks import Parameters, critic_values
from .config import FQLConfig
from .policy import OneStepPolicy, one_step

LEAST_SCALE = 1e-6
"""Values this small on average are not scaled up any further."""


class FQL(FlowActorCritic):
    """Acts by a network that makes a chunk of noise in one step; see :class:`FQLConfig`.

    The network is distilled from the flow: from the same noise it is drawn to the chunk to which the flow carries it.
    At the same time it climbs the values of its chunks. No gradient goes through the steps of the flow.

    Attributes:
        config: as given.

    Args:
        config: of the agent.
        spec: of the environment.
        seed: of the run.

    Raises:
        ConfigError: if the configuration does not fit the spec.
    """

    config: FQLConfig

    def __init__(self, config: FQLConfig, spec: EnvSpec, seed: int) -> None:
        policy = OneStepPolicy(config, spec, seed)
        inputs, size = policy.input_size, policy.action_size
        sources = {name: torch.Generator().manual_seed(derive_seed(seed, "agent", name)) for name in ("flow", "critic")}
        networks = initialise_flow(config, inputs, size, sources["flow"])
        networks |= initialise_critics(config, inputs + size, sources["critic"])
        super().__init__(config, policy, networks, seed)

    def _extract(self, observation: Tensor, *, climbs: bool) -> Metrics:
        """Take a step of the actor; return ``distillation_loss``, and where it climbs ``actor_q``, its mean value."""
        config, parameters = self.config, self._parameters
        noise = torch.randn(len(observation), self._policy.action_size, generator=self._noise)
        carried = sample_flow(parameters, observation, noise, config)

        def actor_loss(actor: Parameters) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            chunk = one_step(actor, observation, noise, config.activation)
            distillation = (chunk - carried).square().mean()
            if not climbs:
                return distillation, (distillation, distillation)
            values = critic_values(parameters, "critic", observation, chunk.clamp(-1, 1), config.activation).mean(0)
            scale = values.new_ones(())
            if config.normalise_q:
                scale = values.detach().abs().mean().clamp(min=LEAST_SCALE)
            loss = config.distillation_weight * distillation - values.mean() / scale
            return loss, (distillation, values.mean())

        gradients, (_, (distillation, value)) = torch.func.grad_and_value(actor_loss, has_aux=True)(
            self._optimiser.network("actor")
        )
        self._optimiser.move(gradients, int(self._updates))
        metrics = {"distillation_loss": float(distillation)}
        return metrics | {"actor_q": float(value)} if climbs else metrics


def make_fql(*, spec: EnvSpec, seed: int, **fields: Any) -> FQL:
    """Make the agent from the fields of :class:`FQLConfig`."""
    return FQL(FQLConfig(**fields), spec, seed)

"""The policy of flow Q-learning: a network that turns noise into a chunk in one step."""

import torch
from torch import Tensor

from ..parts.flow import SampledPolicy
from ..parts.networks import Parameters, apply_network, initialise_network


def one_step(parameters: Parameters, observation: Tensor, noise: Tensor, activation: str) -> Tensor:
    """Return the chunks (B, A) of the network ``actor``, not clipped, for observations (B, O) and noise (B, A)."""
    return apply_network(parameters, "actor", torch.cat((observation, noise), dim=-1), activation)


class OneStepPolicy(SampledPolicy):
    """A :class:`.SampledPolicy` that computes a sample by one pass of the network ``actor``."""

    def initial_actor(self, generator: torch.Generator) -> Parameters:
        """Return new parameters ``actor/...``."""
        return initialise_network(
            "actor",
            (self.input_size + self.action_size, *self.config.hidden, self.action_size),
            generator,
            layer_norm=self.config.actor_layer_norm,
            output_gain=1.0,
        )

    def from_noise(self, parameters: Parameters, observation: Tensor, noise: Tensor) -> Tensor:
        """Return the sample of each of the observations (B, O): (B, A) in [-1, 1]."""
        return one_step(parameters, observation, noise, self.config.activation).clamp(-1, 1)

"""The policy of Q-chunking: the best of several sampled chunks."""

import torch
from torch import Tensor

from ..parts.flow import SampledPolicy, initialise_flow, sample_flow
from ..parts.flow_actor_critic import aggregate, initialise_critics
from ..parts.networks import Parameters, critic_values
from .config import QCConfig


class BestOfNPolicy(SampledPolicy):
    """A :class:`.SampledPolicy` that samples several chunks from the flow and takes the one with the largest value."""

    config: QCConfig

    def initial_actor(self, generator: torch.Generator) -> Parameters:
        """Return new parameters ``flow/...`` and ``critic/...``: the policy acts by both."""
        flow = initialise_flow(self.config, self.input_size, self.action_size, generator)
        return flow | initialise_critics(self.config, self.input_size + self.action_size, generator)

    @property
    def samples(self) -> int:
        """Rows of noise for one decision: one for each candidate."""
        return self.config.candidates

    def from_noise(self, parameters: Parameters, observation: Tensor, noise: Tensor) -> Tensor:
        """Return the best of the samples for each of the observations (B, O): (B, A) in [-1, 1]."""
        config, size = self.config, self.action_size
        repeated = observation.repeat_interleave(config.candidates, 0)
        candidates = sample_flow(parameters, repeated, noise, config)
        values = critic_values(parameters, "critic", repeated, candidates, config.activation)
        best = aggregate(values, config.target_q).view(-1, config.candidates).argmax(1)
        return candidates.view(-1, config.candidates, size)[torch.arange(len(best)), best]

"""The policy of Q-chunking: the best of several sampled chunks."""

import numpy as np
import torch
from torch import Tensor

from robo_rl.core import EnvSpec, State

from ..parts.flow import SampledPolicy, initialise_flow, sample_flow
from ..parts.flow_actor_critic import aggregate, initialise_critics
from ..parts.networks import Parameters, critic_values
from .config import QCConfig


class BestOfNPolicy(SampledPolicy):
    """A :class:`.SampledPolicy` that samples several chunks from the flow and takes the one with the largest value.

    Attributes (besides those of :class:`.SampledPolicy`):
        value_steps: number of steps in which the critics have learned (), see ``QCConfig.selection_starts``.
    """

    config: QCConfig

    def __init__(self, config: QCConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, spec, seed)
        self.value_steps = torch.zeros((), dtype=torch.int64)

    def initial_actor(self, generator: torch.Generator) -> Parameters:
        """Return new parameters ``flow/...`` and ``critic/...``: the policy acts by both."""
        flow = initialise_flow(self.config, self.input_size, self.action_size, generator)
        return flow | initialise_critics(self.config, self.input_size + self.action_size, generator)

    @property
    def samples(self) -> int:
        """Rows of noise for one decision: one for each candidate."""
        return self.config.candidates if int(self.value_steps) >= self.config.selection_starts else 1

    def from_noise(self, parameters: Parameters, observation: Tensor, noise: Tensor) -> Tensor:
        """Return the best of the samples for each of the observations (B, O): (B, A) in [-1, 1]."""
        config, size, count = self.config, self.action_size, self.samples
        if count == 1:
            return sample_flow(parameters, observation, noise, config)
        repeated = observation.repeat_interleave(count, 0)
        candidates = sample_flow(parameters, repeated, noise, config)
        values = critic_values(parameters, "critic", repeated, candidates, config.activation)
        best = aggregate(values, config.target_q).view(-1, count).argmax(1)
        return candidates.view(-1, count, size)[torch.arange(len(best)), best]

    def slots(self) -> dict[str, Tensor]:
        """Return the tensors of the policy, with ``value_steps``."""
        return super().slots() | {"value_steps": self.value_steps}

    def load(self, state: State) -> None:
        """Copy ``state`` into this policy; see :meth:`.NetworkPolicy.load`."""
        super().load(self.completed(state))

    def completed(self, state: State) -> State:
        """Return ``state`` with ``value_steps``; states of earlier versions lack it, in which the critics choose."""
        return {"value_steps": np.array([self.config.selection_starts], np.int64)} | dict(state)

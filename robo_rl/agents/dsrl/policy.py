"""The policy of diffusion steering: an actor decides the noise that a flow moves to a chunk."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Decision, EnvSpec, Observation

from ..parts.flow import SampledPolicy, initialise_flow, sample_flow
from ..parts.networks import Parameters, actor_distribution, initialise_network
from ..parts.policy import INITIAL_OUTPUT_GAIN
from .config import DSRLConfig


class SteeredPolicy(SampledPolicy):
    """A :class:`.SampledPolicy` that follows the velocity field ``flow`` from noise that the network ``actor`` decides.

    The noise is ``noise_bound`` * tanh(u) with u Gaussian. Without exploration it is the mode of this distribution.
    Until the actor learns, the noise is standard normal, so that the policy is that of the flow alone.
    """

    config: DSRLConfig

    def __init__(self, config: DSRLConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, spec, seed)
        self._steered = torch.zeros((), dtype=torch.int64)

    def initial_actor(self, generator: torch.Generator) -> Parameters:
        """Return new parameters ``flow/...`` and ``actor/...``. The actor's noise is nearly standard normal."""
        config, size = self.config, self.action_size
        actor = initialise_network(
            "actor",
            (self.input_size, *config.hidden, 2 * size),
            generator,
            layer_norm=config.actor_layer_norm,
            output_gain=INITIAL_OUTPUT_GAIN,
        )
        return initialise_flow(config, self.input_size, size, generator) | actor

    @property
    def is_steered(self) -> bool:
        """Whether the actor chooses the noise; otherwise it is drawn at random."""
        return bool(self._steered)

    def steer(self) -> None:
        """Let the actor choose the noise from now on."""
        self._steered.fill_(1)

    def from_noise(self, parameters: Parameters, observation: Tensor, noise: Tensor) -> Tensor:
        """Return a chunk for each of the observations (B, O): (B, A) in [-1, 1], with random ``noise`` (B, A)."""
        if self.is_steered:
            mean, log_std = actor_distribution(parameters, observation, self.config.activation)
            noise = self.config.noise_bound * (mean + log_std.exp() * noise).tanh()
        return sample_flow(parameters, observation, noise, self.config)

    def mode(self, row: Tensor, noise: Tensor) -> Tensor:
        """Return the chunk (1, h A) of the actor's mode or, without an actor, that of ``noise`` (h A,)."""
        if not self.is_steered:
            return super().mode(row, noise)
        mean, _ = actor_distribution(self.averaged, row, self.config.activation)
        return sample_flow(self.averaged, row, self.config.noise_bound * mean.tanh(), self.config)

    def decision(self) -> Decision:
        """Return the decision as a function of the observation and, without an actor, of noise."""
        decision = super().decision()
        return replace(decision, noise_size=0) if self.is_steered else decision

    def slots(self) -> dict[str, Tensor]:
        """Return the tensors of the policy."""
        return super().slots() | {"steered": self._steered}

    @torch.inference_mode()
    def _decide(self, observation: Observation, sample: bool) -> NDArray[np.float32]:
        if sample or not self.is_steered:
            return super()._decide(observation, sample)
        row = self.row(self.averaged, observation)
        chunk: NDArray[np.float32] = self.mode(row, row.new_empty(0))[0].numpy()
        return chunk

"""The policy of normalised networks."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import EnvSpec, Observation

from ..parts.networks import Parameters
from ..parts.policy import NetworkPolicy
from ..parts.slots import prefixed
from .config import XQCConfig
from .networks import actor_distribution, initialise_network


class NormalisedPolicy(NetworkPolicy):
    """A policy of actions tanh(u) with u Gaussian, whose networks normalise by their running statistics when they act.

    It explores by samples; without exploration it returns the mode, tanh of the mean. The newest parameters act in both
    cases, as in the published algorithms: running statistics would not match averaged weights. Arguments and errors are
    those of :class:`.NetworkPolicy`.
    """

    config: XQCConfig

    def __init__(self, config: XQCConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, spec, seed)
        self.averaged = self.parameters

    def initial_actor(self, generator: torch.Generator) -> Parameters:
        """Return initial parameters ``actor/...`` and running statistics ``actor_statistics/...``."""
        config, size = self.config, self.action_size
        return initialise_network(config.network, "actor", (self.input_size, 0), config.hidden, (size, size), generator)

    @torch.inference_mode()
    def _decide(self, observation: Observation, sample: bool) -> NDArray[np.float32]:
        """Return an action (A,)."""
        row = self.row(self.parameters, observation)
        mean, log_std = actor_distribution(self.config.network, self.parameters, row)
        if sample:
            mean = mean + log_std.exp() * torch.randn(1, self.action_size, generator=self.exploration).to(self.device)
        action: NDArray[np.float32] = mean.tanh().squeeze(0).numpy(force=True)
        return action

    def mode(self, row: Tensor, noise: Tensor) -> Tensor:
        """Return the mode of the distribution (1, A); there is no ``noise``."""
        return actor_distribution(self.config.network, self.parameters, row)[0].tanh()

    def slots(self) -> dict[str, Tensor]:
        """Return the tensors of the policy: parameters, running statistics and the normalisation of observations."""
        return self.parameters | prefixed("normaliser", self.observations.slots())

"""The base class of agents that learn from a data set alone."""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, DivergenceError, Metrics, Observation

from .policy_agent import PolicyAgent


class Rows(NamedTuple):
    """Rows of the data set as tensors.

    Attributes:
        observation: (B, O), input of the networks.
        action: (B, A), as executed.
        reward: (B,).
        discount: (B,), see :data:`robo_rl.core.Batch`.
        next_observation: (B, O).
    """

    observation: Tensor
    action: Tensor
    reward: Tensor
    discount: Tensor
    next_observation: Tensor


class OfflineAgent(PolicyAgent):
    """An agent that acts by its averaged policy and uses no images; see :class:`.PolicyAgent`."""

    def pretrain(self, batch: Batch) -> Metrics:
        """Do the same as :meth:`update`."""
        return self.update(batch)

    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return the action (A,) in [-1, 1]; such an agent does not explore, even if ``explore`` is true."""
        return self._policy.act(observation, explore=explore, sample=False)

    def _rows(self, batch: Batch) -> Rows:
        """Return the rows of ``batch`` as tensors."""
        rows = self._policy.observations.rows
        action, reward, discount = (torch.from_numpy(batch[key]) for key in ("action", "reward", "discount"))
        next_observation = torch.from_numpy(rows(batch, "next_observation"))
        return Rows(torch.from_numpy(rows(batch)), action, reward, discount, next_observation)

    def _require_finite(self, metrics: Metrics, update: int) -> None:
        """Check the metrics of the update with the number ``update``.

        Raises:
            DivergenceError: naming the first value that is not finite.
        """
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise DivergenceError(
                    f"training diverged: {name} is {value} at update {update}. Look for values that are not finite in "
                    "the data set, or lower agent.learning_rate."
                )

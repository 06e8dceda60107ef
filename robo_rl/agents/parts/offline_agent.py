"""What agents that learn from a data set alone have in common."""

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
        observation: (B, O), as the networks see it.
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
    """Acts by its averaged policy and looks at no images; see :class:`.PolicyAgent`."""

    def pretrain(self, batch: Batch) -> Metrics:
        """The same as :meth:`update`."""
        return self.update(batch)

    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return the action (A,) in [-1, 1]; such an agent does not explore, whatever ``explore`` says."""
        return self._policy.act(observation, explore=explore, sample=False)

    def _rows(self, batch: Batch) -> Rows:
        """Return the rows of ``batch`` as tensors."""
        rows = self._policy.observations.rows
        action, reward, discount = (torch.from_numpy(batch[key]) for key in ("action", "reward", "discount"))
        following = torch.from_numpy(rows(batch, "next_observation"))
        return Rows(torch.from_numpy(rows(batch)), action, reward, discount, following)

    def _require_finite(self, metrics: Metrics, update: int) -> None:
        """Check what ``update`` measured, where that is the number of the update.

        Raises:
            DivergenceError: naming the first value that is not finite.
        """
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise DivergenceError(
                    f"training diverged: {name} is {value} at update {update}. Look for values that are not finite in "
                    "the data set, or lower agent.learning_rate."
                )

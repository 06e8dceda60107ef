"""What agents that learn from a data set alone have in common."""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, DivergenceError, FeatureExtractor, Metrics, Observation, State

from .policy import TanhGaussianPolicy
from .slots import load_generators, load_slots, save_generators, save_slots


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


class OfflineAgent(ABC):
    """Acts by the mode of its policy and looks at no images. Its state is its named tensors and random generators.

    Attributes:
        update_rows: rows of the Batch for ``update``, all of the data set.
        backend: which implementation computes updates.
        features: None: no images are looked at.

    Args:
        policy: trained by the subclass.
        update_rows: as above.
    """

    backend = "torch"
    features: FeatureExtractor | None = None

    def __init__(self, policy: TanhGaussianPolicy, update_rows: int) -> None:
        self.update_rows = update_rows
        self._policy = policy
        self._generators: dict[str, torch.Generator] = {}
        self._updates = torch.zeros((), dtype=torch.int64)

    @property
    def _has_learned(self) -> bool:
        """Whether there was an update. Subclasses count updates in ``_updates``."""
        return bool(self._updates)

    @abstractmethod
    def _slots(self) -> dict[str, Tensor]:
        """Return all tensors that must not be lost, by name."""

    @abstractmethod
    def update(self, batch: Batch) -> Metrics:
        """Take one step on rows of the data set.

        Raises:
            DivergenceError: if a loss is not finite.
        """

    def pretrain(self, batch: Batch) -> Metrics:
        """The same as :meth:`update`."""
        return self.update(batch)

    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return the action (A,) in [-1, 1]; such an agent does not explore, whatever ``explore`` says."""
        return self._policy.act(observation, explore=explore, sample=False)

    def forget_plan(self, *, explore: bool) -> None:
        """Forget what is left of a chunk of actions: see :class:`~robo_rl.core.Policy`."""
        self._policy.forget_plan(explore=explore)

    @property
    def observed(self) -> tuple[str, ...]:
        """Observation keys that it learns from."""
        return self._policy.observations.keys

    def fit_normaliser(self, batch: Batch) -> None:
        """Fix the normalisation of observations from the data set, before anything is learned.

        Raises:
            RuntimeError: if the agent has learned already.
        """
        if self._has_learned:
            raise RuntimeError("the normalisation cannot change once the agent has learned")
        self._policy.observations.fit(batch)

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

    def state(self) -> State:
        """Return parameters, optimiser, counters and random generators."""
        return save_slots(self._slots()) | save_generators(self._generators)

    def load(self, state: State) -> None:
        """Go on from ``state`` bit for bit.

        Raises:
            CheckpointError: naming the first name or shape that is not this agent's.
        """
        rest = {name: array for name, array in state.items() if not name.startswith("generator/")}
        load_slots(self._slots(), rest, "the agent")
        load_generators(self._generators, state, "the agent")

    def policy_state(self) -> State:
        """Return what ``act`` alone needs."""
        return self._policy.state()

    def load_policy(self, state: State) -> None:
        """Take over a ``policy_state``.

        Raises:
            CheckpointError: naming the first name or shape that is not this policy's.
        """
        self._policy.load(state)

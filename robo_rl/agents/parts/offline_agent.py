"""What agents that learn from a data set alone have in common."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, FeatureExtractor, Metrics, Observation, State

from .policy import TanhGaussianPolicy
from .slots import load_slots, save_slots


class OfflineAgent(ABC):
    """Acts by the mode of its policy, looks at no images, and is nothing but its named tensors.

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

    @property
    @abstractmethod
    def _has_learned(self) -> bool:
        """Whether there was an update."""

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

    def state(self) -> State:
        """Return parameters, optimiser and counters."""
        return save_slots(self._slots())

    def load(self, state: State) -> None:
        """Go on from ``state`` bit for bit.

        Raises:
            CheckpointError: naming the first name or shape that is not this agent's.
        """
        load_slots(self._slots(), state, "the agent")

    def policy_state(self) -> State:
        """Return what ``act`` alone needs."""
        return self._policy.state()

    def load_policy(self, state: State) -> None:
        """Take over a ``policy_state``.

        Raises:
            CheckpointError: naming the first name or shape that is not this policy's.
        """
        self._policy.load(state)

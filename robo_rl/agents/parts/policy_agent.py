"""The base of all agents: acting by a policy, and a state of named tensors and random generators."""

from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, FeatureExtractor, Metrics, Observation, State

from .policy import NetworkPolicy
from .slots import load_generators, load_slots, save_generators, save_slots


class PolicyAgent(ABC):
    """Acts by a policy. Subclasses learn, and name all that they must not lose in :meth:`_slots`.

    Attributes:
        update_rows: rows of the Batch for ``update``.
        implementation: which implementation computes updates, and why.
        features: what Batches must have in the place of images; None: the images themselves, or nothing.

    Args:
        policy: trained by the subclass.
        update_rows: as above.
    """

    implementation = "torch"
    features: FeatureExtractor | None = None

    def __init__(self, policy: NetworkPolicy, update_rows: int) -> None:
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
    def pretrain(self, batch: Batch) -> Metrics:
        """Take one step of learning before the first environment step.

        Raises:
            DivergenceError: if a loss is not finite.
        """

    @abstractmethod
    def update(self, batch: Batch) -> Metrics:
        """Take one step of learning on ``update_rows`` rows.

        Raises:
            DivergenceError: if a loss is not finite.
        """

    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return an action (A,) in [-1, 1]; that of the averaged policy unless ``explore``."""
        return self._policy.act(observation, explore=explore)

    def forget_plan(self, *, explore: bool) -> None:
        """Forget what is left of a chunk of actions: see :class:`~robo_rl.core.Policy`."""
        self._policy.forget_plan(explore=explore)

    @property
    def observed(self) -> tuple[str, ...]:
        """Observation keys that it learns from."""
        return self._policy.observations.keys

    def fit_normaliser(self, batch: Batch) -> None:
        """Fix the normalisation of observations from a batch of demonstrations, before anything is learned.

        Raises:
            RuntimeError: if the agent has learned already.
        """
        if self._has_learned:
            raise RuntimeError("the normalisation cannot change once the agent has learned")
        self._policy.observations.fit(batch)

    def state(self) -> State:
        """Return parameters, optimisers, counters and random generators."""
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

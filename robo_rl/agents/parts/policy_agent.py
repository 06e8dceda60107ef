"""The base class of all agents: a policy that acts, and a state of named tensors and random generators."""

from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Agent, Batch, ConfigError, Decision, FeatureExtractor, Metrics, Observation, State

from .plan import check_plans
from .policy import NetworkPolicy
from .slots import load_generators, load_slots, save_generators, save_slots
from .warm_start import CRITIC_OPTIONS, check_class, check_policy, has_critics, transferred


class PolicyAgent(ABC):
    """An agent that acts by a policy. Subclasses learn, and name all tensors that must be saved in :meth:`_slots`.

    They take a configuration, the spec of the environment and the seed of the run, keep the first as ``config``, and
    raise :class:`~robo_rl.core.ConfigError` if it does not fit the spec.

    Attributes:
        update_rows: rows of the Batch for ``update``.
        implementation: which implementation computes updates, and why.
        features: what Batches must contain instead of images; None: the images themselves, or nothing.

    Args:
        policy: policy that the subclass trains.
        update_rows: see above.
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
        """Whether the agent was updated. Subclasses count updates in ``_updates``."""
        return bool(self._updates)

    @abstractmethod
    def _slots(self) -> dict[str, Tensor]:
        """Return all tensors that must be saved, by name."""

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
        """Return an action (A,) in [-1, 1]; without ``explore``, that of the averaged policy."""
        return self._policy.act(observation, explore=explore)

    def forget_plan(self, *, explore: bool) -> None:
        """Discard the rest of a chunk of actions; see :class:`~robo_rl.core.Policy`."""
        self._policy.forget_plan(explore=explore)

    def decision(self) -> Decision:
        """Return the decision of the averaged policy as a function of tensors."""
        return self._policy.decision()

    @property
    def observed(self) -> tuple[str, ...]:
        """Observation keys that the agent learns from."""
        return self._policy.observations.keys

    def fit_normaliser(self, batch: Batch) -> None:
        """Fix the normalisation of observations from a batch of demonstrations, before learning begins.

        Raises:
            RuntimeError: if the agent has learned already.
        """
        if self._has_learned:
            raise RuntimeError("the normalisation cannot change once the agent has learned")
        self._policy.observations.fit(batch)

    def start_from(self, other: Agent, *, critics: bool) -> tuple[str, ...]:
        """Take over the policy and the normalisation of ``other`` and, if requested, its critics.

        Optimisers, counters and random generators begin in their initial state. An agent whose policy consults its
        critics takes them over in any case. With the critics come target critics, temperature and scale of the rewards.

        Args:
            other: agent for the same observations and actions.
            critics: whether to take over the critics.

        Returns:
            Names of what was taken over: ``policy``, ``normalisation``, ``critics``.

        Raises:
            ConfigError: if ``other`` is an agent of another class, or differs in an option, which the message names; or
                if critics are requested and the agent has none.
        """
        check_class(other, self)
        slots, policy = self._slots(), self._policy.slots()
        if critics and not has_critics(slots):
            raise ConfigError(f"agent {type(self).__name__} has no critics to start from")
        critics = critics or has_critics(policy)
        check_policy(other, self._policy.config, self.observed, CRITIC_OPTIONS if critics else ())
        taken, state = transferred(slots, policy, critics), other.state()
        load_slots(taken, {name: array for name, array in state.items() if name in taken}, "the agent")
        parts = {"policy": True, "normalisation": bool(self._policy.observations.fitted), "critics": critics}
        return tuple(name for name, is_taken in parts.items() if is_taken)

    def state(self) -> State:
        """Return parameters, optimisers, counters and random generators."""
        return save_slots(self._slots()) | save_generators(self._generators)

    def load(self, state: State) -> None:
        """Continue from ``state`` bit for bit.

        Raises:
            CheckpointError: naming the first name or shape that does not match this agent.
        """
        arrays = {name: array for name, array in state.items() if not name.startswith("generator/")}
        load_slots(self._slots(), arrays, "the agent")
        check_plans(self._policy.plan_slots())
        load_generators(self._generators, state, "the agent")

    def policy_state(self) -> State:
        """Return the state that ``act`` needs."""
        return self._policy.state()

    def load_policy(self, state: State) -> None:
        """Copy a ``policy_state`` into the policy.

        Raises:
            CheckpointError: naming the first name or shape that does not match this policy.
        """
        self._policy.load(state)

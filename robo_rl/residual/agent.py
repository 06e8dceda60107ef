"""The agent of residual reinforcement learning."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import (
    Agent,
    Batch,
    ComparisonLearner,
    ConfigError,
    Critic,
    Decision,
    Deployable,
    EnvSpec,
    Metrics,
    Observation,
    OfflineLearner,
    ReturnScaled,
    State,
    WarmStartLearner,
    require,
)

from .backend import BASE_ACTION
from .scale import ResidualScale

_ADVICE = "choose agent=residual, or rlpd, sac or redq with agent.action_chunk=1"


class ResidualAgent:
    """An agent whose actions are those of a base policy, corrected by another agent: ResFiT (Ankile et al. 2025).

    The executed action is base + scale * residual, clipped to [-1, 1]. The other agent decides the residual, in
    [-1, 1], and observes the base's action, as its critics do. It learns from batches whose actions are replaced by
    residuals, (action - base) / scale:

    - Values are learned of residuals as they are: those of demonstrations and interventions may be larger than 1, and
      no value is attributed to an action that was not executed.
    - Where base + residual exceeds [-1, 1], the critics learn the part that was executed, but are asked for the value
      of the whole residual. A base that often acts at its bounds may therefore be overestimated.
    - Cloning imitates residuals clipped to [-1, 1], the nearest that the policy can decide.

    The scale may grow from a small one to its bound while the agent learns, so that exploration begins close to the
    base (progressive exploration; Policy Decorator, Yuan et al. 2024, raises the probability of corrections instead).
    It is then part of the state of agent and policy. The actions of all batches are converted with the present scale:
    the residual of the same correction slowly becomes smaller, and the critics follow.

    Args:
        residual: the other agent, for ``spec``.
        spec: spec of an environment with the base's action, see :class:`.BaseActionBackend`.

    Raises:
        ConfigError: if the other agent decides several actions at once, begins with random actions, or does not observe
            the base's action.
    """

    def __init__(self, residual: Agent, spec: EnvSpec) -> None:
        config = residual.config
        expected = "1 on a base policy, which is corrected in every step"
        require(config.action_chunk == 1, "agent.action_chunk", expected, config.action_chunk)
        expected = "0 on a base policy, as the first steps are those of the base"
        require(config.random_steps == 0, "agent.random_steps", expected, config.random_steps)
        if BASE_ACTION not in residual.observed:
            raise ConfigError(
                f"agent.observation_keys: expected {BASE_ACTION!r} among them, got {', '.join(residual.observed)}"
            )
        if isinstance(residual, ComparisonLearner | ReturnScaled) or not isinstance(residual, WarmStartLearner):
            raise ConfigError(f"this agent cannot correct a base policy: {_ADVICE}")
        self._residual, self._scale = residual, ResidualScale(spec, getattr(config, "actor_delay", 0))
        self.config, self.implementation = config, residual.implementation
        self.features, self.observed, self.update_rows = residual.features, residual.observed, residual.update_rows
        self.offline_steps = residual.offline_steps if isinstance(residual, OfflineLearner) else 0
        # Whatever concerns no actions is done by the other agent.
        self.fit_normaliser, self.forget_plan = residual.fit_normaliser, residual.forget_plan

    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return an action (A,) in [-1, 1]: that of the base and the residual."""
        residual = self._residual.act(observation, explore=explore)
        action: NDArray[np.float32] = (observation[BASE_ACTION] + self._scale.value * residual).clip(-1, 1)
        return action.astype(np.float32, copy=False)

    def pretrain(self, batch: Batch) -> Metrics:
        """Take one step of behaviour cloning on a batch of demonstrations."""
        return self._residual.pretrain(self._converted(batch))

    def update(self, batch: Batch) -> Metrics:
        """Learn from ``update_rows`` rows. If the scale grows, return ``residual_scale``, too, as it was before."""
        scale, metrics = self._scale.value, self._residual.update(self._converted(batch))
        self._scale.count_update()
        return {**metrics, "residual_scale": scale} if self._scale.grows else metrics

    def state(self) -> State:
        """Return the state of the other agent, and the progress of a scale that grows."""
        return self._residual.state() | self._scale.state()

    def load(self, state: State) -> None:
        """Continue from ``state`` bit for bit.

        Raises:
            CheckpointError: if it does not match this agent.
        """
        self._scale.load(state, self._residual.load)

    def policy_state(self) -> State:
        """Return the state that ``act`` needs."""
        return self._residual.policy_state() | self._scale.state()

    def load_policy(self, state: State) -> None:
        """Copy a ``policy_state`` into the policy.

        Raises:
            CheckpointError: if it does not match this agent.
        """
        self._scale.load(state, self._residual.load_policy)

    def pretrain_critics(self, batch: Batch) -> Metrics:
        """Take one step of offline learning on a batch of demonstrations."""
        assert isinstance(self._residual, OfflineLearner)
        return self._residual.pretrain_critics(self._converted(batch))

    def value(self, observation: Observation, action: NDArray[np.float32]) -> float:
        """Return the estimated discounted return after ``action`` (A,) on ``observation``.

        Raises:
            ConfigError: if the agent has no critics.
        """
        if not isinstance(self._residual, Critic):
            raise ConfigError(f"this agent has no critics of single actions: {_ADVICE}")
        return self._residual.value(observation, self._residuals(action, observation[BASE_ACTION]))

    def start_from(self, other: Agent, *, critics: bool) -> tuple[str, ...]:
        """Take over what ``other`` has learned about residuals, and the scale that it has reached.

        See :class:`~robo_rl.core.WarmStartLearner`.

        Raises:
            ConfigError: names each difference between the agents.
        """
        if not isinstance(other, ResidualAgent):
            raise ConfigError("expected a run on a base policy, found one without")
        assert isinstance(self._residual, WarmStartLearner)
        parts = self._residual.start_from(other._residual, critics=critics)
        self._scale.start_from(other._scale)
        return parts

    def decision(self) -> Decision:
        """Return the decision as a function of tensors, one of which is the base's action.

        Raises:
            ConfigError: if the other agent has no decision.
        """
        if not isinstance(self._residual, Deployable):
            raise ConfigError(f"this agent has no decision (robo_rl.core.Deployable): {_ADVICE}")
        decision, scale = self._residual.decision(), self._scale.value

        def compute(observation: Mapping[str, Tensor], noise: Tensor) -> Tensor:
            residual = decision.compute(observation, noise)
            return (observation[BASE_ACTION].to(residual.device) + scale * residual).clamp(-1, 1)

        return replace(decision, compute=compute)

    def _converted(self, batch: Batch) -> Batch:
        """Return ``batch`` with residuals instead of actions."""
        base = batch[f"observation/{BASE_ACTION}"]
        proposed = self._residuals(batch["proposed_action"], base).clip(-1, 1)
        return {**batch, "action": self._residuals(batch["action"], base), "proposed_action": proposed}

    def _residuals(self, action: NDArray[Any], base: NDArray[Any]) -> NDArray[np.float32]:
        residuals: NDArray[np.float32] = np.divide(action - base, self._scale.value, dtype=np.float32)
        return residuals

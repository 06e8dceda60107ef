"""The steps of an update: one of the critics, and one of the actor and the temperature.

All randomness is an argument, so that equal arguments give equal results everywhere.

Sources: Haarnoja et al. 2018 (SAC), Bhatt et al. 2024 (CrossQ: the rows and the next rows in one batch, no target
network), Palenicek et al. 2026 (XQC: the same with a target network, bins, projection of weights), Lee et al. 2025
(SimbaV2), Bellemare et al. 2017 (C51: bins).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..parts.adam import TrainState, adam_step, bias_corrections
from ..parts.device import captured, fused
from ..parts.networks import Parameters, sample_action
from ..parts.offline_agent import Rows
from ..parts.reference import ReferenceRows, divergence
from .categorical import bin_centres, output_values, project
from .config import XQCConfig
from .networks import PROJECTED, actor_distribution, apply_network, follow_moments, project_weights

CRITIC_METRICS = ("critic_loss", "q_mean", "q_abs_max", "target_mean", "reward_scale")
"""Elements of the result of a critic step.

``critic_loss``: squared error, or cross-entropy [nat] of critics with bins, mean over critics and rows; ``q_mean``,
``q_abs_max``: mean and largest magnitude of all critics' values; ``target_mean``: mean of their targets, all in units
of the reward; ``reward_scale``: what rewards are divided by.
"""
ACTOR_METRICS = ("actor_loss", "entropy", "temperature")
"""Elements of the result of an actor step: its loss without the term of the reference, in units of the scaled reward;
the policy's entropy [nat]; the temperature before the step."""


class Schedule(NamedTuple):
    """Values that change from step to step, as tensors, so that a captured step need not be captured again.

    Attributes:
        learning_rate: ().
        corrections: (2,), divisors of Adam's moments, see :func:`.bias_corrections`.
        temperature_corrections: (2,), the same for the temperature.
        reward_scale: (), divisor of the rewards.
    """

    learning_rate: Tensor
    corrections: Tensor
    temperature_corrections: Tensor
    reward_scale: Tensor


def schedule(config: XQCConfig, updates: int, steps: int, reward_scale: float = 1.0) -> Schedule:
    """Return the values for a step.

    Args:
        config: configuration of the agent.
        updates: number of earlier critic updates.
        steps: number of steps of the network, including this one.
        reward_scale: divisor of the rewards.
    """
    values = (
        config.learning_rate_after(updates),
        bias_corrections(steps, config.adam_beta),
        bias_corrections(steps),
        reward_scale,
    )
    return Schedule(*(torch.tensor(value, dtype=torch.float32) for value in values))


class XQCUpdate:
    """The steps in PyTorch.

    They work in place on ``critic/...``, ``target_critic/...``, ``actor/...``, ``temperature/log_alpha``, the running
    statistics of networks, and the moments of the trained parameters.

    Attributes:
        critic_step: see :meth:`_critic_step`.
        actor_step: see :meth:`_actor_step`.
    """

    def __init__(self, config: XQCConfig, state: TrainState) -> None:
        self._config, self._state = config, state
        self._target = {name: x for name, x in state.parameters.items() if name.startswith("target_critic/")}
        compiled: Callable[..., Callable[..., Tensor]] = fused if config.implementation == "compile" else lambda x: x
        self.critic_step = captured(torch.no_grad()(compiled(self._critic_step)), *state)
        self.actor_step = captured(torch.no_grad()(compiled(self._actor_step)), *state)

    def _network(self, *names: str) -> Parameters:
        """Return the tensors whose names begin with one of ``names`` and a slash."""
        prefixes = tuple(f"{name}/" for name in names)
        return {key: x for key, x in self._state.parameters.items() if key.startswith(prefixes)}

    def _critic_step(self, rows: Rows, noise: Tensor, schedule: Schedule) -> Tensor:
        """Move the critics one step towards their targets, and the target critics towards the critics.

        Args:
            rows: B rows.
            noise: (B, A) standard normal, for the next actions.
            schedule: values for this step.

        Returns:
            (len(CRITIC_METRICS),).
        """
        config, parameters = self._config, self._state.parameters
        scale = schedule.reward_scale
        action, log_prob = sample_action(*actor_distribution(config.network, parameters, rows.next_observation), noise)
        bonus = -parameters["temperature/log_alpha"].exp() * log_prob
        # The rows and the next rows as one batch, so that both are normalised by the same moments.
        observation = torch.cat((rows.observation, rows.next_observation))
        joint = torch.cat((observation, torch.cat((rows.action, action))), dim=-1)
        count = len(rows.reward)
        target_outputs = None
        if self._target:
            target_outputs = self._target_outputs(joint)[:, count:]

        def loss(critic: Parameters) -> tuple[Tensor, tuple[Tensor, Tensor, Parameters]]:
            moments: Parameters = {}
            outputs = apply_network(config.network, parameters | critic, "critic", joint, moments)
            current, following = outputs[:, :count], outputs[:, count:].detach()
            if target_outputs is not None:
                following = target_outputs
            target = self._target_of(following, rows.reward / scale, rows.discount, bonus)
            if config.value_range is None:
                error = (current.squeeze(-1) - target).square()
            else:
                error = -(target * current.log_softmax(-1)).sum(-1)
            values = output_values(current.detach(), config.value_range)
            return error.mean(1).sum(), (values, self._mean(target), moments)

        gradients, (total, (values, mean, moments)) = torch.func.grad_and_value(loss, has_aux=True)(
            self._network("critic")
        )
        self._descend("critic", gradients, schedule)
        follow_moments(parameters, moments)
        if self._target:
            self._track()
        return torch.stack(
            (total / config.ensemble_size, values.mean() * scale, values.abs().amax() * scale, mean * scale, scale)
        )

    def _actor_step(
        self, observation: Tensor, noise: Tensor, schedule: Schedule, reference: ReferenceRows | None = None
    ) -> Tensor:
        """Move the actor towards higher values and entropy, then the temperature towards the target entropy.

        Args:
            observation: (B, O).
            noise: (B, A) standard normal.
            schedule: values for this step.
            reference: the policy to stay close to; None: none.

        Returns:
            (len(ACTOR_METRICS),).
        """
        config, parameters = self._config, self._state.parameters
        alpha = parameters["temperature/log_alpha"].exp()

        def loss(actor: Parameters) -> tuple[Tensor, tuple[Tensor, Tensor, Parameters]]:
            moments: Parameters = {}
            distribution = actor_distribution(config.network, parameters | actor, observation, moments)
            action, log_prob = sample_action(*distribution, noise)
            rows = torch.cat((observation, action), dim=-1)
            values = output_values(apply_network(config.network, parameters, "critic", rows), config.value_range)
            policy_loss = (alpha * log_prob - values.amin(0)).mean()
            distance = 0 if reference is None else reference.weight * divergence(*distribution, reference).mean()
            return policy_loss + distance, (policy_loss, -log_prob.mean(), moments)

        gradients, (_, (total, entropy, moments)) = torch.func.grad_and_value(loss, has_aux=True)(
            self._network("actor")
        )
        self._descend("actor", gradients, schedule)
        follow_moments(parameters, moments)
        # Gradient of alpha * (entropy - target) on log alpha: too much entropy lowers the temperature.
        excess = entropy - config.target_entropy_per_action * noise.shape[-1]
        gradient = {"temperature/log_alpha": alpha * excess}
        adam_step(self._state, gradient, schedule.learning_rate, schedule.temperature_corrections)
        return torch.stack((total, entropy, alpha))

    def _target_of(self, outputs: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor) -> Tensor:
        """Return the targets (B,), or (B, K) shares of bins.

        Args:
            outputs: (E, B, ...), outputs for the next rows.
            reward: (B,), scaled.
            discount: (B,).
            bonus: (B,), temperature times entropy of the next action.
        """
        value_range = self._config.value_range
        values = output_values(outputs, value_range)
        if value_range is None:
            return reward + discount * (values.amin(0) + bonus)
        # The distribution of the critic whose mean is the smallest.
        least = values.argmin(0)[None, :, None].expand(1, *outputs.shape[1:])
        shares = outputs.gather(0, least).squeeze(0).softmax(-1)
        centres = bin_centres(shares.shape[-1], value_range, shares)
        moved = reward[:, None] + discount[:, None] * (centres + bonus[:, None])
        return project(shares, moved, value_range)

    def _mean(self, target: Tensor) -> Tensor:
        """Return the mean () of targets (B,) or (B, K)."""
        value_range = self._config.value_range
        if value_range is None:
            return target.mean()
        return (target * bin_centres(target.shape[-1], value_range, target)).sum(-1).mean()

    def _target_outputs(self, joint: Tensor) -> Tensor:
        """Return the outputs of the target critics, normalised by the moments of the rows ``joint`` themselves."""
        parameters = {name.removeprefix("target_"): x for name, x in self._target.items()}
        return apply_network(self._config.network, self._state.parameters | parameters, "critic", joint, {})

    def _descend(self, name: str, gradients: Parameters, schedule: Schedule) -> None:
        """Move a network by one step of Adam, then its weights back to length 1 if the network has such weights."""
        config = self._config
        adam_step(self._state, gradients, schedule.learning_rate, schedule.corrections, config.adam_beta)
        if config.network in PROJECTED:
            project_weights(self._network(name))

    def _track(self) -> None:
        critics = [self._state.parameters[name.removeprefix("target_")] for name in self._target]
        torch._foreach_lerp_(list(self._target.values()), critics, self._config.tau)

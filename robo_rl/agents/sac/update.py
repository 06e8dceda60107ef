"""The update of soft actor-critic: U critic steps, then one step of the actor and one of the temperature.

The first ``config.actor_delay`` updates have critic steps alone.

This file is the definition. Other implementations take the same arguments and are tested against it. All
randomness is an argument (:class:`Noise`), so that equal arguments give equal results everywhere.

Sources: Haarnoja et al. 2018 (SAC, temperature), Chen et al. 2021 (REDQ: ensemble, random subset in targets, mean
for the actor), Ball et al. 2023 (RLPD: LayerNorm critics, no entropy in the backup).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..parts.adam import TrainState, adam_step, bias_corrections
from ..parts.device import captured, fused
from ..parts.networks import Parameters, actor_distribution, critic_values, sample_action
from ..parts.reference import ReferenceRows, divergence
from .config import SACConfig

METRICS = ("critic_loss", "q_mean", "q_abs_max", "target_mean", "actor_loss", "entropy", "temperature")
"""Names of the elements of an update's result.

``critic_loss``: squared error, mean over updates, critics and rows; ``q_mean``, ``q_abs_max``: mean and largest
magnitude of all critics' values on the rows of the critic updates;
``target_mean``: mean of their targets;
``actor_loss`` (without the terms of cloning and reference) and ``entropy`` [nat] of the actor's step; ``temperature``
before its step.
"""

ACTOR_METRICS = METRICS[4:]
"""Names of the elements that an update without a step of the actor does not have: they are NaN."""


class Minibatches(NamedTuple):
    """Rows of U critic updates, float32 and contiguous. The actor is updated on the last minibatch.

    Attributes:
        observation: (U, B, O).
        action: (U, B, A).
        reward: (U, B).
        discount: (U, B), see :data:`robo_rl.core.Batch`.
        next_observation: (U, B, O).
        cloning: (U, B), weight of the cloning term in the actor's loss, 0 for rows whose action is not cloned.
        proposed_action: (U, B, A), actions that the demonstrators intended, before noise.
    """

    observation: Tensor
    action: Tensor
    reward: Tensor
    discount: Tensor
    next_observation: Tensor
    cloning: Tensor
    proposed_action: Tensor


class Noise(NamedTuple):
    """All randomness of an update.

    Attributes:
        next_action: (U, B, A) standard normal, for the actions in the targets.
        subset: (U, M) int64, indices of the target critics to use; no index occurs twice in a row.
        action: (B, A) standard normal, for the actor's step.
    """

    next_action: Tensor
    subset: Tensor
    action: Tensor


def draw_noise(config: SACConfig, action_size: int, generator: torch.Generator) -> Noise:
    """Draw the randomness of one update."""
    updates, rows = config.update_to_data, config.batch_size
    next_action = torch.randn(updates, rows, action_size, generator=generator)
    # The first M of a random permutation of the E critics, for each update.
    order = torch.rand(updates, config.ensemble_size, generator=generator).argsort(dim=1)
    action = torch.randn(rows, action_size, generator=generator)
    return Noise(next_action, order[:, : config.target_subset].contiguous(), action)


class Corrections(NamedTuple):
    """The divisors of Adam's moments, see :func:`.bias_corrections`; tensors, so that new values need no new program.

    Attributes:
        critic: (U, 2).
        actor: (2,), also for the temperature; None for an update without a step of the actor.
    """

    critic: Tensor
    actor: Tensor | None


def adam_corrections(config: SACConfig, updates: int, dtype: torch.dtype) -> Corrections:
    """Return the bias corrections of the update that follows ``updates`` earlier ones."""
    done, actor_done = updates * config.update_to_data, updates - config.actor_delay
    critic = [bias_corrections(done + u + 1) for u in range(config.update_to_data)]
    actor = None if actor_done < 0 else torch.tensor(bias_corrections(actor_done + 1), dtype=dtype)
    return Corrections(torch.tensor(critic, dtype=dtype), actor)


Average = Callable[[Parameters], Parameters]
"""Function that returns the means of named values over all processes that share the update; see :mod:`.ranks`."""


def single_process(values: Parameters) -> Parameters:
    """Return ``values``: the average over a single process."""
    return values


class TorchUpdate:
    """The update in plain PyTorch.

    It works in place on ``critic/...``, ``target_critic/...``, ``actor/...`` and ``temperature/log_alpha``, see
    :mod:`.networks`, and on the moments of the trained parameters.

    Args:
        config: configuration of the agent.
        state: tensors of all networks.
        compiled: whether torch.compile fuses the steps; the first call then takes a quarter of a minute. On a CPU the
            actor's step is not compiled: it is one of many, and would take as long again to compile.
        average: averages gradients and entropy; unless it is :func:`single_process`, no CUDA graph is captured.
    """

    def __init__(
        self,
        config: SACConfig,
        state: TrainState,
        *,
        compiled: bool = False,
        average: Average = single_process,
    ) -> None:
        self._config = config
        self._state = state
        self._average = average
        # One program with, and one without, a step of the actor.
        self._steps, self._critic_steps = (
            captured(self._all_steps, *state) if average is single_process else self._all_steps for _ in range(2)
        )
        self._critic_step: Callable[..., Tensor] = fused(critic_step) if compiled else critic_step
        fuses_actor = compiled and next(iter(state.parameters.values())).is_cuda
        self._actor_step: Callable[..., Tensor] = fused(actor_step) if fuses_actor else actor_step

    @torch.no_grad()
    def __call__(
        self, batch: Minibatches, noise: Noise, updates: int, reference: ReferenceRows | None = None
    ) -> Tensor:
        """Do one whole update.

        Args:
            batch: rows.
            noise: randomness.
            updates: whole updates done before this one; Adam's step numbers follow from it.
            reference: the policy to stay close to, for the last minibatch; None in every update, or in none.

        Returns:
            (len(METRICS),) float32.
        """
        corrections = adam_corrections(self._config, updates, batch.reward.dtype)
        return (self._critic_steps if corrections.actor is None else self._steps)(batch, noise, corrections, reference)

    def _all_steps(
        self, batch: Minibatches, noise: Noise, corrections: Corrections, reference: ReferenceRows | None = None
    ) -> Tensor:
        config, state = self._config, self._state
        # The actor does not change during the critic steps, so one pass computes the next actions for all of them.
        next_action, next_log_prob = sample_action(
            *actor_distribution(
                state.parameters, batch.next_observation.flatten(0, 1), config.activation, config.precision
            ),
            noise.next_action.flatten(0, 1),
        )
        next_action = next_action.view_as(noise.next_action)
        next_log_prob = next_log_prob.view_as(batch.reward)

        rows = []
        for u in range(config.update_to_data):
            minibatch = Minibatches(*(field[u] for field in batch))
            draws = next_action[u], next_log_prob[u], noise.subset[u]
            rows.append(self._critic_step(state, config, minibatch, *draws, corrections.critic[u], self._average))
        if corrections.actor is None:
            return update_metrics(rows, rows[0].new_full((len(ACTOR_METRICS),), math.nan))
        actor_metrics = self._actor_step(
            state,
            config,
            Minibatches(*(field[-1] for field in batch)),
            noise.action,
            corrections.actor,
            self._average,
            reference,
        )
        return update_metrics(rows, actor_metrics)


def critic_step(
    state: TrainState,
    config: SACConfig,
    minibatch: Minibatches,
    next_action: Tensor,
    next_log_prob: Tensor,
    subset: Tensor,
    corrections: Tensor,
    average: Average = single_process,
) -> Tensor:
    """Move the critics one step towards their targets, and the target critics towards the critics.

    Args:
        state: see :class:`TorchUpdate`, as for ``config``.
        minibatch: fields without their axis U.
        next_action: (B, A), the policy's actions for the next observations.
        next_log_prob: (B,), their log densities.
        subset: (M,), indices of the target critics to use.
        corrections: (2,), see :class:`Corrections`.
        average: averages gradients over the processes that compute other rows of the minibatch.

    Returns:
        (4,): the first four of ``METRICS`` for this minibatch.
    """
    parameters = state.parameters
    target = critic_target(parameters, config, minibatch, next_action, next_log_prob, subset)
    critic = {k: v for k, v in parameters.items() if k.startswith("critic/")}
    gradients, (total, values) = torch.func.grad_and_value(critic_loss, has_aux=True)(
        critic, config, minibatch.observation, minibatch.action, target
    )
    adam_step(state, average(gradients), config.critic_learning_rate, corrections)
    move_targets(parameters, config)
    return critic_metrics(config, total, values, target)


def critic_target(
    parameters: Parameters,
    config: SACConfig,
    minibatch: Minibatches,
    next_action: Tensor,
    next_log_prob: Tensor,
    subset: Tensor,
) -> Tensor:
    """Return the targets of the critics (B,); the arguments are those of :func:`critic_step`."""
    target_critics = {k: v.index_select(0, subset) for k, v in parameters.items() if k.startswith("target_critic/")}
    next_values = critic_values(
        target_critics,
        "target_critic",
        minibatch.next_observation,
        next_action,
        config.activation,
        config.precision,
    ).amin(0)
    if config.entropy_backup:
        next_values = next_values - parameters["temperature/log_alpha"].exp() * next_log_prob
    return minibatch.reward + minibatch.discount * next_values


def critic_loss(
    critic: Parameters, config: SACConfig, observation: Tensor, action: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the mean squared error of the rows, summed over the critics, and the values (E, B)."""
    values = critic_values(critic, "critic", observation, action, config.activation, config.precision)
    return (values - target).square().mean(1).sum(), values


def move_targets(parameters: Parameters, config: SACConfig) -> None:
    """Move the target critics by the share tau towards the critics."""
    targets = [name for name in parameters if name.startswith("target_critic/")]
    critics = [parameters[name.removeprefix("target_")] for name in targets]
    torch._foreach_lerp_([parameters[name] for name in targets], critics, config.tau)


def critic_metrics(config: SACConfig, total: Tensor, values: Tensor, target: Tensor) -> Tensor:
    """Return the first four of ``METRICS``, from the result of :func:`critic_loss` and its target."""
    return torch.stack((total / config.ensemble_size, values.mean(), values.abs().amax(), target.mean()))


def update_metrics(critic_rows: list[Tensor], actor_metrics: Tensor) -> Tensor:
    """Return ``METRICS`` of a whole update, from U results of :func:`critic_step` and that of :func:`actor_step`."""
    critic = torch.stack(critic_rows)
    mean = critic.mean(0)
    return torch.cat((mean[:2], critic[:, 2].amax(0, keepdim=True), mean[3:], actor_metrics))


def actor_step(
    state: TrainState,
    config: SACConfig,
    batch: Minibatches,
    noise: Tensor,
    corrections: Tensor,
    average: Average = single_process,
    reference: ReferenceRows | None = None,
) -> Tensor:
    """Move the actor towards higher values and entropy, then the temperature towards the target entropy.

    Where ``batch.cloning`` is positive, the actor's mode also moves towards the action that the demonstrators proposed,
    and the whole distribution towards that of the ``reference``, if there is one.

    Args:
        state: see :class:`TorchUpdate`, as for ``config``.
        batch: the last minibatch, fields without the leading axis U.
        noise: (B, A) standard normal.
        corrections: (2,), see :class:`Corrections`.
        average: averages gradients over the processes that compute other rows of the minibatch.
        reference: the policy to stay close to; None: none.

    Returns:
        (3,): the last three of ``METRICS``.
    """
    parameters = state.parameters
    critic = {k: v for k, v in parameters.items() if k.startswith("critic/")}
    actor = {k: v for k, v in parameters.items() if k.startswith("actor/")}
    alpha = parameters["temperature/log_alpha"].exp()

    def loss(actor: Parameters) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        return actor_loss(actor, critic, alpha, config, batch.observation, batch.observation, batch, noise, reference)

    gradients, (_, (policy_loss, log_prob)) = torch.func.grad_and_value(loss, has_aux=True)(actor)
    gradients = average(gradients | {"entropy": -log_prob.mean()})
    entropy = gradients.pop("entropy")
    adam_step(state, gradients, config.actor_learning_rate, corrections)
    temperature_step(state, config, entropy, noise.shape[-1], corrections)
    return torch.stack((policy_loss, entropy, alpha))


def actor_loss(
    actor: Parameters,
    critic: Parameters,
    alpha: Tensor,
    config: SACConfig,
    observation: Tensor,
    critic_observation: Tensor,
    batch: Minibatches,
    noise: Tensor,
    reference: ReferenceRows | None = None,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return the actor's loss; beside it the loss without the terms of cloning and reference, and log densities (B,).

    Args:
        actor: parameters ``actor/...``.
        critic: parameters ``critic/...``.
        alpha: temperature.
        config: configuration of the agent.
        observation: (B, O), input of the actor.
        critic_observation: (B, O'), input of the critics beside the action.
        batch: fields without the leading axis U.
        noise: (B, A) standard normal.
        reference: the policy to stay close to; None: none.
    """
    mean, log_std = actor_distribution(actor, observation, config.activation, config.precision)
    action, log_prob = sample_action(mean, log_std, noise)
    values = critic_values(critic, "critic", critic_observation, action, config.activation, config.precision)
    value = values.mean(0) if config.actor_q == "mean" else values.amin(0)
    policy_loss = (alpha * log_prob - value).mean()
    weights = batch.cloning
    if config.cloning_filter:
        weights = weights * is_better(critic, config, critic_observation, batch.proposed_action, mean.detach().tanh())
    cloning = (weights * (mean.tanh() - batch.proposed_action).square().sum(-1)).mean()
    loss = policy_loss + cloning
    if reference is not None:
        loss = loss + reference.weight * divergence(mean, log_std, reference).mean()
    return loss, (policy_loss, log_prob)


def is_better(critic: Parameters, config: SACConfig, observation: Tensor, action: Tensor, other: Tensor) -> Tensor:
    """Return for each row (B,) whether the critics, on average, value ``action`` (B, A) no less than ``other`` (B, A).

    The result has the values 1 and 0 in the type of ``action``; ``observation`` (B, O') is the critics' other input.
    """
    first, second = (
        critic_values(critic, "critic", observation.detach(), each, config.activation, config.precision).mean(0)
        for each in (action, other)
    )
    return (first >= second).to(action.dtype)


def temperature_step(
    state: TrainState,
    config: SACConfig,
    entropy: Tensor,
    action_size: int,
    corrections: Tensor,
) -> None:
    """Move the temperature one step, so that ``entropy`` [nat] approaches its target."""
    target_entropy = config.target_entropy if config.target_entropy is not None else -0.5 * action_size
    # Gradient of alpha * (entropy - target) on log alpha: too much entropy lowers the temperature.
    alpha = state.parameters["temperature/log_alpha"].exp()
    temperature_gradient = {"temperature/log_alpha": alpha * (entropy - target_entropy)}
    adam_step(state, temperature_gradient, config.temperature_learning_rate, corrections)

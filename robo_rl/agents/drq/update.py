"""The update of DrQ: that of soft actor-critic, with images that are randomly shifted and encoded.

The critics' loss also trains the encoder; the actor uses the encoded images without a gradient to the encoder. The
encoder has no target network: targets are computed with its newest parameters (Yarats et al. 2022).

If the critics use the true state instead of images (Pinto et al. 2018), the actor's loss trains the encoder.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..parts.adam import TrainState, adam_step
from ..parts.device import captured, fused
from ..parts.networks import Parameters, actor_distribution, sample_action
from ..parts.reference import ReferenceRows
from ..sac.update import (
    Corrections,
    Minibatches,
    Noise,
    actor_loss,
    actor_step,
    adam_corrections,
    critic_loss,
    critic_metrics,
    critic_step,
    critic_target,
    move_targets,
    temperature_step,
    update_metrics,
)
from .config import DrQConfig

Inputs = Callable[[Parameters, list[Tensor], Tensor], Tensor]
"""See :meth:`.PixelPolicy.inputs`."""


class PixelMinibatches(NamedTuple):
    """Rows of U critic updates.

    Attributes:
        vectors: everything except images; its observations are the vectors beside them.
        images: for each camera (U, B, H, W, C) uint8, shifted.
        next_images: the same for the next observations.
        critic: observations and next observations (U, B, O') of critics whose input differs from the actor's.
    """

    vectors: Minibatches
    images: list[Tensor]
    next_images: list[Tensor]
    critic: tuple[Tensor, Tensor] | None = None


class DrQUpdate:
    """The update in plain PyTorch.

    It works in place on the tensors of :class:`~robo_rl.agents.sac.update.TorchUpdate` and on ``encoder/...``.

    Args:
        config: configuration of the agent.
        inputs: the policy's function from images and vectors to the input of actor and critics.
        state: tensors of all networks.
        compiled: whether torch.compile fuses the steps; the first call then takes a minute or more.
    """

    def __init__(
        self,
        config: DrQConfig,
        inputs: Inputs,
        state: TrainState,
        *,
        compiled: bool = False,
    ) -> None:
        self._config = config
        self._inputs = inputs
        self._state = state
        # On processors without AVX-512, the gradient of a residual network's convolutions by oneDNN crashes the process
        # (torch 2.13: 4 of 6 runs on a Zen 3).
        trains_residual = any("/resnet/" in name for name in state.first)
        crashes = trains_residual and torch.backends.cpu.get_cpu_capability() == "AVX2"
        self._convolutions: Callable[[], AbstractContextManager[Any]] = (
            partial(torch.backends.mkldnn.flags, enabled=False) if crashes else nullcontext
        )
        self._steps = captured(self._all_steps, *state)
        steps: list[Callable[..., Any]] = [pixel_critic_step, actor_step, pixel_actor_step]
        compiled_steps = [fused(step) if compiled else step for step in steps]
        self._critic_step, self._actor_step, self._pixel_actor_step = compiled_steps

    @torch.no_grad()
    def __call__(
        self, batch: PixelMinibatches, noise: Noise, updates: int, reference: ReferenceRows | None = None
    ) -> Tensor:
        """Do one whole update; arguments and result are those of :class:`~robo_rl.agents.sac.update.TorchUpdate`."""
        with self._convolutions():
            corrections = adam_corrections(self._config, updates, batch.vectors.reward.dtype)
            return self._steps(batch, noise, corrections, reference)

    def _all_steps(
        self, batch: PixelMinibatches, noise: Noise, corrections: Corrections, reference: ReferenceRows | None = None
    ) -> Tensor:
        state, config, rows = self._state, self._config, []
        for u in range(self._config.update_to_data):
            vectors = Minibatches(*(field[u] for field in batch.vectors))
            images, next_images = [x[u] for x in batch.images], [x[u] for x in batch.next_images]
            critic = None if batch.critic is None else (batch.critic[0][u], batch.critic[1][u])
            draws = noise.next_action[u], noise.subset[u]
            metrics, encoded = self._critic_step(
                state, config, self._inputs, vectors, images, next_images, critic, *draws, corrections.critic[u]
            )
            rows.append(metrics)
        if critic is None:
            # The output of the encoder before its last step: this saves a third pass over the images.
            vectors = vectors._replace(observation=encoded)
            actor_metrics = self._actor_step(
                state, config, vectors, noise.action, corrections.actor, reference=reference
            )
        else:
            actor_metrics = self._pixel_actor_step(
                state, config, self._inputs, vectors, images, critic[0], noise.action, corrections.actor, reference
            )
        return update_metrics(rows, actor_metrics)


def pixel_critic_step(
    state: TrainState,
    config: DrQConfig,
    inputs: Inputs,
    vectors: Minibatches,
    images: list[Tensor],
    next_images: list[Tensor],
    critic: tuple[Tensor, Tensor] | None,
    next_noise: Tensor,
    subset: Tensor,
    corrections: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """Move critics and encoder one step towards the critics' targets, and the target critics towards the critics.

    Args:
        state: see :class:`DrQUpdate`, as for ``config`` and ``inputs``.
        vectors: fields without their axis U.
        images: for each camera (B, H, W, C), shifted.
        next_images: the same for the next observations.
        critic: observations and next observations (B, O') of critics whose input differs from the actor's; the
            encoder then does not change.
        next_noise: (B, A) standard normal, for the actions in the targets.
        subset: (M,), indices of the target critics to use.
        corrections: (2,), see :class:`~robo_rl.agents.sac.update.Corrections`.

    Returns:
        (4,), the first four of ``METRICS``; and the input (B, input_size) of actor and critics before the step, or None
        if their inputs differ.
    """
    parameters = state.parameters
    next_encoded = inputs(parameters, next_images, vectors.next_observation)
    distribution = actor_distribution(parameters, next_encoded, config.activation, config.precision)
    draws = (*sample_action(*distribution, next_noise), subset)
    if critic is not None:
        vectors = vectors._replace(observation=critic[0], next_observation=critic[1])
        return critic_step(state, config, vectors, *draws, corrections), None
    target = critic_target(parameters, config, vectors._replace(next_observation=next_encoded), *draws)

    def loss(trained: Parameters) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        encoded = inputs(trained, images, vectors.observation)
        total, values = critic_loss(trained, config, encoded, vectors.action, target)
        return total, (values, encoded)

    trained = {k: v for k, v in parameters.items() if k.startswith(("critic/", "encoder/"))}
    gradients, (total, (values, encoded)) = torch.func.grad_and_value(loss, has_aux=True)(trained)
    adam_step(state, gradients, config.critic_learning_rate, corrections)
    move_targets(parameters, config)
    return critic_metrics(config, total, values, target), encoded


def pixel_actor_step(
    state: TrainState,
    config: DrQConfig,
    inputs: Inputs,
    vectors: Minibatches,
    images: list[Tensor],
    critic_observation: Tensor,
    noise: Tensor,
    corrections: Tensor,
    reference: ReferenceRows | None,
) -> Tensor:
    """Move actor and encoder towards higher values of critics with a different input, then the temperature.

    Args:
        state: see :class:`DrQUpdate`, as for ``config`` and ``inputs``.
        vectors: the last minibatch, fields without their axis U.
        images: for each camera (B, H, W, C), shifted.
        critic_observation: (B, O'), input of the critics beside the action.
        noise: (B, A) standard normal.
        corrections: (2,), see :class:`~robo_rl.agents.sac.update.Corrections`.
        reference: the policy to stay close to; None: none.

    Returns:
        (3,): the last three of ``METRICS``.
    """
    parameters = state.parameters
    critic = {k: v for k, v in parameters.items() if k.startswith("critic/")}
    trained = {k: v for k, v in parameters.items() if k.startswith(("actor/", "encoder/"))}
    alpha = parameters["temperature/log_alpha"].exp()

    def loss(trained: Parameters) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        encoded = inputs(trained, images, vectors.observation)
        return actor_loss(trained, critic, alpha, config, encoded, critic_observation, vectors, noise, reference)

    gradients, (_, (policy_loss, log_prob)) = torch.func.grad_and_value(loss, has_aux=True)(trained)
    adam_step(state, gradients, config.actor_learning_rate, corrections)
    entropy = -log_prob.mean()
    temperature_step(state, config, entropy, noise.shape[-1], corrections)
    return torch.stack((policy_loss, entropy, alpha))

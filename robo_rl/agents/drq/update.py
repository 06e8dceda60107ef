"""The update of DrQ: that of soft actor-critic, with images that are shifted at random and encoded.

The critics' loss trains the encoder too; the actor sees what it makes of the images, and gives it no gradient. The
encoder has no slow copy: targets are made with the newest one (Yarats et al. 2022).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..sac.adam import adam_step
from ..sac.networks import Parameters, actor_distribution, sample_action
from ..sac.update import (
    Minibatches,
    Noise,
    actor_step,
    corrections_like,
    critic_loss,
    critic_metrics,
    critic_target,
    move_targets,
)
from .augmentation import shift_images
from .config import DrQConfig

Inputs = Callable[[Parameters, list[Tensor], Tensor], Tensor]
"""See :meth:`.PixelPolicy.inputs`."""


class PixelMinibatches(NamedTuple):
    """Rows of U critic updates.

    Attributes:
        vectors: everything but images; its observations are the vectors beside them.
        images: for each camera (U, B, H, W, C) uint8.
        next_images: the same of the next observations.
        shifts: for each camera (U, B, 2).
        next_shifts: the same of the next observations.
    """

    vectors: Minibatches
    images: list[Tensor]
    next_images: list[Tensor]
    shifts: list[Tensor]
    next_shifts: list[Tensor]


class DrQUpdate:
    """The update in plain PyTorch.

    Works in place on the tensors of ``parameters`` (those of :class:`~robo_rl.agents.sac.update.TorchUpdate`, and
    ``encoder/...``) and of Adam's moments.

    Args:
        config: of the agent.
        inputs: of the policy: what actor and critics see, from images and vectors.
        parameters: of all networks.
        first: Adam's running means of gradients.
        second: Adam's running means of squared gradients.
        compiled: whether torch.compile fuses the steps; the first call takes a minute or more then.
    """

    def __init__(
        self,
        config: DrQConfig,
        inputs: Inputs,
        parameters: Parameters,
        first: Parameters,
        second: Parameters,
        *,
        compiled: bool = False,
    ) -> None:
        self._config = config
        self._inputs = inputs
        self._state = (parameters, first, second, config)
        step = pixel_critic_step
        self._critic_step: Callable[..., tuple[Tensor, Tensor]] = torch.compile(step) if compiled else step
        self._actor_step: Callable[..., Tensor] = torch.compile(actor_step) if compiled else actor_step

    @torch.no_grad()
    def __call__(self, batch: PixelMinibatches, noise: Noise, updates: int) -> Tensor:
        """Do one whole update; arguments and result as of :class:`~robo_rl.agents.sac.update.TorchUpdate`."""
        rows = []
        for u in range(self._config.update_to_data):
            vectors = Minibatches(*(field[u] for field in batch.vectors))
            images, next_images = (
                [shift_images(image[u], shift[u]) for image, shift in zip(*pair, strict=True)]
                for pair in ((batch.images, batch.shifts), (batch.next_images, batch.next_shifts))
            )
            corrections = corrections_like(updates * self._config.update_to_data + u + 1, vectors.reward)
            metrics, seen = self._critic_step(
                *self._state, self._inputs, vectors, images, next_images, noise.next_action[u], noise.subset[u],
                corrections,
            )  # fmt: skip
            rows.append(metrics)
        # The actor learns on what the encoder said before its last step, which saves a third pass over the images.
        last = vectors._replace(observation=seen)
        actor_metrics = self._actor_step(*self._state, last, noise.action, corrections_like(updates + 1, last.reward))
        critic = torch.stack(rows)
        mean = critic.mean(0)
        return torch.cat((mean[:2], critic[:, 2].amax(0, keepdim=True), mean[3:], actor_metrics))


def pixel_critic_step(
    parameters: Parameters,
    first: Parameters,
    second: Parameters,
    config: DrQConfig,
    inputs: Inputs,
    vectors: Minibatches,
    images: list[Tensor],
    next_images: list[Tensor],
    next_noise: Tensor,
    subset: Tensor,
    corrections: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """Move critics and encoder one step towards the critics' targets, and the target critics towards the critics.

    Args:
        parameters: as in :class:`DrQUpdate`, and ``first``, ``second``, ``config`` and ``inputs`` too.
        vectors: fields without their axis U.
        images: for each camera (B, H, W, C), shifted.
        next_images: the same of the next observations.
        next_noise: (B, A) standard normal, for the actions in the targets.
        subset: (M,) which target critics count.
        corrections: Adam's, as 0-d tensors.

    Returns:
        (4,) the first four of ``METRICS``, and what the networks saw, (B, input_size), before the step.
    """
    following = vectors._replace(next_observation=inputs(parameters, next_images, vectors.next_observation))
    distribution = actor_distribution(parameters, following.next_observation, config.activation, config.precision)
    next_action, next_log_prob = sample_action(*distribution, next_noise)
    target = critic_target(parameters, config, following, next_action, next_log_prob, subset)

    def loss(trained: Parameters) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        seen = inputs(trained, images, vectors.observation)
        total, values = critic_loss(trained, config, seen, vectors.action, target)
        return total, (values, seen)

    trained = {k: v for k, v in parameters.items() if k.startswith(("critic/", "encoder/"))}
    gradients, (total, (values, seen)) = torch.func.grad_and_value(loss, has_aux=True)(trained)
    adam_step(parameters, gradients, first, second, config.critic_learning_rate, corrections)
    move_targets(parameters, config)
    return critic_metrics(config, total, values, target), seen

"""The policy that a run begins with, frozen, to which the policy stays close for a while."""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from .networks import Parameters
from .policy import NetworkPolicy
from .slots import prefixed

SMALLEST_LOG_STD = math.log(0.1)
"""Lower bound of the logarithm of the reference's deviation: one with hardly any noise would forbid every change."""


class ReferenceConfig(Protocol):
    """The fields of an agent's configuration that concern the reference."""

    @property
    def reference_weight(self) -> float: ...
    @property
    def reference_steps(self) -> int: ...
    @property
    def actor_delay(self) -> int: ...


class ReferenceRows(NamedTuple):
    """The reference's Gaussians for the rows on which the actor takes a step.

    Attributes:
        mean: (B, A), before tanh.
        log_std: (B, A), at least :data:`SMALLEST_LOG_STD`.
        weight: (), weight of the divergence in the actor's loss.
    """

    mean: Tensor
    log_std: Tensor
    weight: Tensor


def divergence(mean: Tensor, log_std: Tensor, reference: ReferenceRows) -> Tensor:
    """Return KL(policy || reference) (B,) [nat] of policies tanh(u) with u Gaussian.

    It is that of the Gaussians, since tanh is invertible:
    sum over dimensions of log(s0 / s) + (s^2 + (m - m0)^2) / (2 s0^2) - 1/2, with mean m and deviation s of the policy,
    and m0, s0 of the reference. As a term of the actor's loss: Tiapkin et al. 2024 (demonstration-regularized RL).

    Args:
        mean: (B, A), before tanh.
        log_std: (B, A).
        reference: the reference for the same rows.
    """
    squares = (2 * log_std).exp() + (mean - reference.mean).square()
    return (reference.log_std - log_std + 0.5 * squares * (-2 * reference.log_std).exp() - 0.5).sum(-1)


class FadingReference:
    """A frozen copy of a policy, and the weight of the divergence from it, which falls linearly to zero.

    Args:
        config: configuration of the agent. With ``reference_weight=0`` there is no copy.
        policy: policy of the agent. The copy is that of its average, which acts without exploration.
    """

    def __init__(self, config: ReferenceConfig, policy: NetworkPolicy) -> None:
        self._config, self._policy = config, policy
        copied = policy.averaged if config.reference_weight > 0 else {}
        self._parameters = {name: torch.zeros_like(tensor) for name, tensor in copied.items()}

    @property
    def is_used(self) -> bool:
        """Whether updates are regularised towards a reference policy."""
        return bool(self._parameters)

    def begin(self) -> None:
        """Copy the policy, before its first update."""
        for name, tensor in self._parameters.items():
            tensor.copy_(self._policy.averaged[name])

    @torch.no_grad()
    def rows(
        self, distribution: Callable[[Parameters], tuple[Tensor, Tensor]], updates: int
    ) -> tuple[ReferenceRows, float]:
        """Return the reference for some rows, and the policy's mean divergence from it [nat].

        Args:
            distribution: function from parameters of the policy to mean and log deviation (B, A) for these rows.
            updates: number of earlier updates.
        """
        mean, log_std = distribution(self._parameters)
        weight = torch.tensor(reference_weight(self._config, updates), dtype=mean.dtype, device=mean.device)
        rows = ReferenceRows(mean.contiguous(), log_std.clamp(min=SMALLEST_LOG_STD), weight)
        return rows, float(divergence(*distribution(self._policy.parameters), rows).mean())

    def slots(self) -> dict[str, Tensor]:
        """Return the tensors of the copy."""
        return prefixed("reference", self._parameters)


def reference_weight(config: ReferenceConfig, updates: int) -> float:
    """Return the weight of the divergence after ``updates`` updates, with or without a step of the actor."""
    done = max(updates - config.actor_delay, 0)
    return config.reference_weight * max(1 - done / config.reference_steps, 0.0)

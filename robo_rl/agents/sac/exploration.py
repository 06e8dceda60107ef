"""Exploration as inexact as the demonstrator: the error of a clone as the deviation of actions."""

import math
from typing import ClassVar

import torch
from torch import Tensor

from robo_rl.core import Batch

from ..parts.policy import TanhGaussianPolicy

SMALLEST_LOG_STD, LARGEST_LOG_STD = -4.0, 0.0
"""Bounds of the logarithm of the deviation: a script's actions are exact, and those of a bad clone are random."""


class CloningError:
    """Mean squared error of a cloned policy in each action dimension, over the last steps of cloning.

    Args:
        policy: policy that is cloned.
    """

    STEPS: ClassVar[int] = 100
    """Steps, the last ones, that are measured."""

    def __init__(self, policy: TanhGaussianPolicy) -> None:
        self._policy = policy
        self._squares: list[Tensor] = []

    @torch.no_grad()
    def add(self, batch: Batch) -> None:
        """Measure the policy on the rows of ``batch``."""
        mean, _ = self._policy.distribution(batch)(self._policy.parameters)
        action = torch.from_numpy(batch["proposed_action"]).to(mean.device)
        self._squares.append((mean.tanh() - action).square().mean(0))

    def log_deviation(self) -> Tensor:
        """Return the logarithm of the root mean square error (A,), within bounds; the measurements begin anew."""
        squares = torch.stack(self._squares).mean(0)
        self._squares.clear()
        return (0.5 * squares.log()).clamp(SMALLEST_LOG_STD, LARGEST_LOG_STD)


def gaussian_entropy(log_std: Tensor) -> Tensor:
    """Return the entropy () [nat] of independent Gaussians with the logarithms ``log_std`` (A,) of their deviations."""
    return (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum()

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

    @torch.no_grad()
    def explore(self) -> Tensor:
        """Make the root mean square error the policy's deviation, within bounds; forget the measurements.

        Returns:
            The entropy () of a Gaussian with this deviation [nat].
        """
        log_std = (0.5 * torch.stack(self._squares).mean(0).log()).clamp(SMALLEST_LOG_STD, LARGEST_LOG_STD)
        self._squares.clear()
        self._policy.parameters["actor/output/bias"][self._policy.action_size :] = log_std
        self._policy.average(1.0)
        return (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum()

"""Training of the image encoders of rewards: steps of AdamW with a schedule of the learning rate."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .config import ContrastConfig, PretrainingConfig


def optimise(
    model: Any,
    config: ContrastConfig | PretrainingConfig,
    loss: Callable[[], Tensor],
    report: Callable[[int, float], bool] | None,
) -> None:
    """Train ``model`` for ``config.steps`` steps.

    Args:
        loss: returns the loss of a new minibatch.
        report: called with the number of each step and its loss; returns whether to continue.
    """
    optimiser = torch.optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    model.train()
    for step in range(config.steps):
        for group in optimiser.param_groups:
            group["lr"] = config.learning_rate * schedule(step, config.steps)
        value = loss()
        optimiser.zero_grad()
        torch.autograd.backward(value)
        optimiser.step()
        if report is not None and not report(step, float(value.detach())):
            break
    model.eval()


def schedule(step: int, steps: int) -> float:
    """Return the learning rate of a step, as a share of the largest one."""
    warming = max(1, steps // 20)
    if step < warming:
        return (step + 1) / warming
    return 0.5 * (1 + math.cos(math.pi * (step - warming) / max(1, steps - warming)))

"""Losses that several agents use."""

import torch
from torch import Tensor


def expectile_loss(difference: Tensor, expectile: float) -> Tensor:
    """Return the mean of |expectile - 1(u < 0)| u^2 over differences u (B,)."""
    share = torch.where(difference < 0, 1 - expectile, expectile)
    return (share * difference.square()).mean()

"""Values as distributions over bins, learned by classification (Farebrother et al. 2024, "Stop Regressing: Training
Value Functions via Classification for Scalable Deep RL").

K bins of equal width fill a range (low, high). A value is the mean of the bins' centres under the critic's softmax.
A target is converted to a distribution too, and the loss is the cross-entropy of the two: its gradient does not grow
with the error.
"""

import math

import torch
from torch import Tensor

SIGMA = 0.75
"""Standard deviation of the Gaussian around a target, in bin widths: the paper's choice, so six bins hold its mass."""


def expected_value(logits: Tensor, value_range: tuple[float, float]) -> Tensor:
    """Return the values (...,) of logits (..., K) over the bins."""
    low, high = value_range
    bins = logits.shape[-1]
    half = (high - low) / bins / 2
    centres = torch.linspace(low + half, high - half, bins, dtype=logits.dtype, device=logits.device)
    return (logits.softmax(-1) * centres).sum(-1)


def hl_gauss(target: Tensor, bins: int, value_range: tuple[float, float]) -> Tensor:
    """Return the shares (..., K) of a Gaussian around each target (...,) that lie in the bins; they sum to one.

    Targets beyond the range are clipped to its ends. The part of a Gaussian beyond the range is left out: for targets
    within two bins of an end, the mean of the shares is shifted towards the middle, by 0.7 bins at the end itself.
    """
    low, high = value_range
    edges = torch.linspace(low, high, bins + 1, dtype=target.dtype, device=target.device)
    deviation = SIGMA * (high - low) / bins
    below = torch.erf((edges - target.clamp(low, high).unsqueeze(-1)) / (math.sqrt(2) * deviation))
    return below.diff(dim=-1) / (below[..., -1:] - below[..., :1])

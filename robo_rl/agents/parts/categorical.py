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


def bin_centres(bins: int, value_range: tuple[float, float], like: Tensor) -> Tensor:
    """Return the centres (K,) of the bins, with the dtype and device of ``like``."""
    low, high = value_range
    half = (high - low) / bins / 2
    return torch.linspace(low + half, high - half, bins, dtype=like.dtype, device=like.device)


def expected_value(logits: Tensor, value_range: tuple[float, float]) -> Tensor:
    """Return the values (...,) of logits (..., K) over the bins."""
    return (logits.softmax(-1) * bin_centres(logits.shape[-1], value_range, logits)).sum(-1)


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


def project(shares: Tensor, values: Tensor, value_range: tuple[float, float]) -> Tensor:
    """Return the distribution (B, K) over the bins of ``values`` (B, K) with probabilities ``shares`` (B, K).

    Each value is clipped to the centres of the outer bins, and its share is divided between the two nearest centres so
    that the mean remains (C51, Bellemare et al. 2017).
    """
    low, high = value_range
    bins = shares.shape[-1]
    width = (high - low) / bins
    position = ((values - low) / width - 0.5).clamp(0, bins - 1)
    lower = position.nan_to_num().floor().clamp(max=bins - 2)  # an index must be valid even for NaN
    upper_share = shares * (position - lower)
    index = lower.long()
    projected = torch.zeros_like(shares).scatter_add_(-1, index, shares - upper_share)
    return projected.scatter_add_(-1, index + 1, upper_share)

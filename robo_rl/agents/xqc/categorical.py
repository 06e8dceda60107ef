"""Values as distributions over bins (Bellemare et al. 2017).

K bins of equal width fill a range (low, high). A value is the mean of the bins' centres under the critic's softmax.
A target is converted to a distribution too, and the loss is the cross-entropy of the two: its gradient does not grow
with the error.
"""

import torch
from torch import Tensor


def bin_centres(bins: int, value_range: tuple[float, float], like: Tensor) -> Tensor:
    """Return the centres (K,) of the bins, with the dtype and device of ``like``."""
    low, high = value_range
    half = (high - low) / bins / 2
    return torch.linspace(low + half, high - half, bins, dtype=like.dtype, device=like.device)


def output_values(outputs: Tensor, value_range: tuple[float, float] | None) -> Tensor:
    """Return the values (...,) of outputs (..., 1), or of logits (..., K) over the bins of ``value_range``."""
    if value_range is None:
        return outputs.squeeze(-1)
    return (outputs.softmax(-1) * bin_centres(outputs.shape[-1], value_range, outputs)).sum(-1)


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

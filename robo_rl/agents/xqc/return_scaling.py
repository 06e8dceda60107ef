"""The magnitude of returns, by which rewards are divided for critics with bins.

Palenicek et al. (2026) and Lee et al. (2025) divide by the standard deviation of the discounted sums of the rewards of
past steps, which they update with every step of the environment. An agent here receives rewards in batches of single
rows only, from any number of actors and with rewards that reward modules may change later. It uses an upper bound on
the root mean square of such sums, from the rows alone: that of episodes whose rewards are all equal,

    sqrt(E[r^2] E[(1 - gamma^k)^2]) / (1 - gamma),

where k, the number of steps, is geometrically distributed with the share p of rows that terminate an episode. Returns
of rewards that vary within an episode are smaller, up to the square root of the horizon 1 / (1 - gamma).
"""

import torch
from torch import Tensor

from ..parts.networks import Parameters

SHARE = 0.01
"""Share of a batch's statistics that goes into their running averages; more in the first batches."""
SMALLEST = 1e-8


def initial_statistics() -> Parameters:
    """Return the statistics of no rows: mean squared reward, largest magnitude of a reward, share of terminations."""
    return {f"rewards/{name}": torch.zeros(()) for name in ("square", "largest", "terminated")}


def follow_rewards(statistics: Parameters, reward: Tensor, discount: Tensor, share: Tensor) -> None:
    """Update the statistics in place with rows (B,); their averages move by ``share`` ()."""
    statistics["rewards/square"].lerp_(reward.square().mean(), share)
    statistics["rewards/terminated"].lerp_((discount == 0).to(reward.dtype).mean(), share)
    torch.maximum(statistics["rewards/largest"], reward.abs().amax(), out=statistics["rewards/largest"])


def return_scale(statistics: Parameters, gamma: float, largest: float) -> Tensor:
    """Return the magnitude () of returns, at least such that no single scaled reward exceeds ``largest``."""
    continues = 1 - statistics["rewards/terminated"].double()
    # E[gamma^k] and E[gamma^2k] for k = 1, 2, ...: 0 if no row terminates an episode.
    once, twice = (factor * (1 - continues) / (1 - factor * continues) for factor in (gamma, gamma**2))
    horizon = (1 - 2 * once + twice).sqrt() / (1 - gamma)
    scale = (statistics["rewards/square"].sqrt() * horizon).to(statistics["rewards/square"].dtype)
    return torch.maximum(scale, statistics["rewards/largest"] / largest).clamp(min=SMALLEST)

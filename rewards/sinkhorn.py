"""Entropic optimal transport between two trajectories, in the log domain."""

import math

import torch
from torch import Tensor


def sinkhorn(costs: Tensor, epsilon: float, iterations: int) -> Tensor:
    """Return the transport plan (n, m) between uniform marginals that is cheapest but for its entropy.

    Minimises sum(plan * costs) - epsilon * entropy(plan) by alternating projections (Cuturi 2013) on logarithms, so
    that a small ``epsilon`` neither overflows nor divides by zero. The columns' sums are exact, the rows' as
    exact as the iterations make them.

    Args:
        costs: (n, m).
        epsilon: weight of the entropy, in units of the costs, positive.
        iterations: how many.
    """
    rows, columns = costs.shape
    log_row, log_column = -math.log(rows), -math.log(columns)
    row_potential, column_potential = torch.zeros_like(costs[:, 0]), torch.zeros_like(costs[0])
    for _ in range(iterations):
        row_potential = epsilon * (log_row - torch.logsumexp((column_potential - costs) / epsilon, dim=1))
        column_potential = epsilon * (log_column - torch.logsumexp((row_potential[:, None] - costs) / epsilon, dim=0))
    return torch.exp((row_potential[:, None] + column_potential - costs) / epsilon)

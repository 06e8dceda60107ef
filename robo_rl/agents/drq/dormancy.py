"""Dormant neurons and the perturbation of networks: DrM (Xu et al. 2024, "DrM: Mastering Visual Reinforcement
Learning through Dormant Ratio Minimization").
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from ..parts.networks import Parameters, hidden_outputs
from .config import DormancyConfig


def dormant_ratio(parameters: Parameters, name: str, x: Tensor, activation: str, threshold: float) -> float:
    """Return the share of dormant neurons in the hidden layers of a network, in [0, 1].

    A neuron is dormant if the mean magnitude of its output is at most ``threshold`` times the mean of that magnitude
    over its layer (Sokar et al. 2023). In a layer whose outputs are all zero, all neurons are dormant.

    Args:
        parameters: parameters of the network ``name``, which is not an ensemble, and of others.
        name: name of the network.
        x: (B, in), rows over which means are computed.
        activation: activation of the hidden layers.
        threshold: see above.
    """
    means = [output.abs().mean(0) for output in hidden_outputs(parameters, name, x, activation)]
    dormant = torch.cat([mean <= threshold * mean.mean() for mean in means])
    return float(dormant.float().mean())


def perturbation_factor(ratio: float, config: DormancyConfig) -> float:
    """Return the share of its parameters that a network keeps: it falls with the share of dormant neurons."""
    return min(max(1 - config.rate * ratio, config.min_factor), config.max_factor)


def perturb(parameters: Parameters, fresh: Mapping[str, Tensor], factor: float) -> None:
    """Shrink and perturb dense layers in place: f * parameter + (1 - f) * new value (Ash and Adams 2020).

    As in DrM, weights and biases of dense layers are perturbed; convolutions and LayerNorm are not. Target critics get
    the same new values as their critics, so that the two differ no more than before.

    Args:
        parameters: parameters of all networks.
        fresh: new values for actor, critics and encoder, by the names of the parameters.
        factor: f.
    """
    for name, tensor in parameters.items():
        source = name.removeprefix("target_")
        dense = source.startswith(("actor/", "critic/")) or "/dense/" in source
        if dense and source.endswith(("/weight", "/bias")):
            tensor.lerp_(fresh[source].to(tensor), 1 - factor)

"""Neurons that sleep, and networks that are shaken awake: DrM (Xu et al. 2024, "DrM: Mastering Visual Reinforcement
Learning through Dormant Ratio Minimization").
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from ..parts.networks import Parameters, hidden_outputs
from .config import DormancyConfig


def dormant_ratio(parameters: Parameters, name: str, x: Tensor, activation: str, threshold: float) -> float:
    """Return the share of the neurons in the hidden layers of a network that are dormant, in [0, 1].

    A neuron is dormant where the mean magnitude of its output is at most ``threshold`` times the mean of that over its
    layer (Sokar et al. 2023); all are in a layer that says nothing.

    Args:
        parameters: of the network ``name`` and others; it is no ensemble.
        name: of the network.
        x: (B, in) rows over which means are taken.
        activation: of the hidden layers.
        threshold: see above.
    """
    means = [output.abs().mean(0) for output in hidden_outputs(parameters, name, x, activation)]
    dormant = torch.cat([mean <= threshold * mean.mean() for mean in means])
    return float(dormant.float().mean())


def perturbation_factor(ratio: float, config: DormancyConfig) -> float:
    """Return the share of itself that a network keeps: the less, the more of its neurons are dormant."""
    return min(max(1 - config.rate * ratio, config.min_factor), config.max_factor)


def perturb(parameters: Parameters, fresh: Mapping[str, Tensor], factor: float) -> None:
    """Shrink and perturb dense layers in place: f * parameter + (1 - f) * new value (Ash and Adams 2020).

    As in DrM, weights and biases of dense layers are perturbed; convolutions and LayerNorm stay. Target critics get the
    same new values as their critics, so that the two differ no more than before.

    Args:
        parameters: of all networks.
        fresh: new values, by the names of parameters, for actor, critics and encoder.
        factor: f.
    """
    for name, tensor in parameters.items():
        own = name.removeprefix("target_")
        dense = own.startswith(("actor/", "critic/")) or "/dense/" in own
        if dense and own.endswith(("/weight", "/bias")):
            tensor.lerp_(fresh[own].to(tensor), 1 - factor)

"""Initial parameters of the critics, their targets and the temperature."""

import math

import torch

from ..parts.adam import TrainState
from ..parts.networks import Parameters, initialise_network
from .config import SACConfig


def initial_networks(config: SACConfig, inputs: int, generator: torch.Generator) -> Parameters:
    """Return ``critic/...``, ``target_critic/...`` and ``temperature/log_alpha``.

    Args:
        config: configuration of the agent.
        inputs: width of the critics' input, including the action.
        generator: source of the critics' weights.
    """
    critic = initial_critics(config, inputs, generator)
    target = {f"target_{name}": tensor.clone() for name, tensor in critic.items()}
    return critic | target | {"temperature/log_alpha": torch.tensor(math.log(config.initial_temperature))}


def train_state(networks: Parameters) -> TrainState:
    """Return ``networks`` with moments for all but the target critics, which follow the critics."""
    return TrainState.of(networks, lambda name: not name.startswith("target_critic/"))


def initial_critics(config: SACConfig, inputs: int, generator: torch.Generator) -> Parameters:
    """Return ``critic/...`` alone; the arguments are those of :func:`initial_networks`."""
    return initialise_network(
        "critic",
        (inputs, *config.hidden, 1),
        generator,
        layer_norm=config.layer_norm,
        output_gain=1.0,
        ensemble=config.ensemble_size,
    )

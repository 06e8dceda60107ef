"""The precision of native updates of soft actor-critic for ``agent.precision=auto``."""

import time

import torch

from ..parts.networks import initialise_network
from ..parts.policy import INITIAL_OUTPUT_GAIN
from ..parts.precision import ACTION_SIZE, OBSERVATION_SIZE, UpdateTimer
from .config import SACConfig
from .critics import initial_networks, train_state
from .native_update import NativeUpdate
from .update import Minibatches, draw_noise


class UpdateLoop:
    """Native updates on random rows."""

    def __init__(self, config: SACConfig) -> None:
        generator = torch.Generator().manual_seed(0)
        sizes = (OBSERVATION_SIZE, *config.hidden, 2 * ACTION_SIZE)
        actor = initialise_network(
            "actor", sizes, generator, layer_norm=config.actor_layer_norm, output_gain=INITIAL_OUTPUT_GAIN
        )
        networks = initial_networks(config, OBSERVATION_SIZE + ACTION_SIZE, generator)
        self._update = NativeUpdate(config, train_state(networks | actor))
        lead = (config.update_to_data, config.batch_size)
        observation, next_observation = torch.randn(2, *lead, OBSERVATION_SIZE, generator=generator)
        action, proposed_action = 2 * torch.rand(2, *lead, ACTION_SIZE, generator=generator) - 1
        reward, discount, cloning = torch.zeros(lead), torch.full(lead, config.gamma), torch.ones(lead)
        self._rows = Minibatches(
            observation, action, reward, discount, next_observation, cloning=cloning, proposed_action=proposed_action
        )
        self._noise = draw_noise(config, ACTION_SIZE, generator)
        self._updates = 0

    def __call__(self) -> float:
        """Return the processor time of one critic update [s]."""
        start = time.process_time()
        self._update(self._rows, self._noise, self._updates)
        self._updates += 1
        return (time.process_time() - start) / len(self._rows.reward)


TIMER = UpdateTimer("updates", lambda precision: UpdateLoop(SACConfig(precision=precision, update_to_data=4)))
"""Measures critic updates of the default agent."""

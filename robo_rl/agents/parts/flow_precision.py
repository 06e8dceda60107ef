"""The choice of the implementation and the precision of updates of agents with a flow."""

import time

import torch

from .adam import TrainState
from .flow import initialise_flow
from .flow_actor_critic import initialise_critics
from .implementation import Choice, computed_precision, explained, native_or_torch
from .native.flow_update import NativeFlowUpdate, draw_noise
from .native_flow_config import NativeFlowConfig
from .networks import initialise_network
from .offline_agent import Rows
from .precision import ACTION_SIZE, OBSERVATION_SIZE, UpdateTimer


def choose(config: NativeFlowConfig) -> Choice:
    """Return how the updates of an agent are computed.

    Raises:
        ConfigError: if the native update is requested and not available.
    """
    if config.implementation == "torch":
        return Choice(None, "torch")
    computed = computed_precision(config.implementation, config.precision, fastest=TIMER.fastest)
    precision, description = native_or_torch(config.implementation, computed)
    return Choice(precision, explained(description, config.precision, computed))


class _UpdateLoop:
    """Native updates of an agent with a flow and an actor, with the default options, on random rows."""

    def __init__(self, precision: str) -> None:
        self._config = config = NativeFlowConfig()
        rows, o, a = config.batch_size, OBSERVATION_SIZE, config.action_chunk * ACTION_SIZE
        self._generator = generator = torch.Generator().manual_seed(0)
        actor = initialise_network(
            "actor", (o + a, *config.hidden, a), generator, layer_norm=config.actor_layer_norm, output_gain=1.0
        )
        critics = initialise_critics(config, o + a, generator)
        state = TrainState.of(initialise_flow(config, o, a, generator) | critics | actor)
        averaged = {name: tensor.clone() for name, tensor in (critics | actor).items()}
        self._update = NativeFlowUpdate(config, precision, state, averaged, rows)
        observation, next_observation = torch.randn(2, rows, o, generator=generator)
        self._chunk = 2 * torch.rand(rows, a, generator=generator) - 1
        reward, discount = torch.zeros(rows), torch.full((rows,), config.gamma)
        self._rows = Rows(observation, self._chunk, reward, discount, next_observation)
        self._updates = 0

    def __call__(self) -> float:
        """Return the processor time of one update [s]."""
        start = time.process_time()
        noise = draw_noise(self._config, self._chunk, self._generator, samples=1)
        counts = {"critic_updates": self._updates, "updates": self._updates}
        rows, weight = self._rows, torch.ones(len(self._chunk))
        self._update(rows.observation, self._chunk, weight, noise, rows, tau=self._config.tau, **counts)
        self._updates += 1
        return time.process_time() - start


TIMER = UpdateTimer("flow", _UpdateLoop)
"""Measures updates of the default agent with an actor."""

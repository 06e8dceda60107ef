"""The tanh-Gaussian policy: what ``act`` needs, and nothing that only learning needs."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, EnvSpec, Observation, SpecError, State, derive_seed

from .device import choose_device
from .networks import Parameters, actor_distribution, initialise_network
from .observations import ObservationVector
from .slots import load_slots, prefixed, save_slots

INITIAL_OUTPUT_GAIN = 0.01
"""Small, so that the first actions are near zero and the entropy is the same everywhere."""


class PolicyConfig(Protocol):
    """The fields of an agent's configuration that its policy reads; see :class:`.SACConfig`."""

    @property
    def network(self) -> str: ...
    @property
    def hidden(self) -> tuple[int, ...]: ...
    @property
    def activation(self) -> str: ...
    @property
    def actor_layer_norm(self) -> bool: ...
    @property
    def initial_log_std(self) -> float: ...
    @property
    def observation_keys(self) -> tuple[str, ...] | None: ...
    @property
    def normalise_observations(self) -> bool: ...
    @property
    def device(self) -> str: ...


class TanhGaussianPolicy:
    """Chooses actions tanh(u) with u Gaussian, mean and deviation from a network.

    Attributes:
        observations: makes the network's input.
        input_size: width of the network's input.
        parameters: ``actor/...``, trained in place by the agent.
        averaged: a running average of them (Polyak and Juditsky 1992), which acts where nothing is explored: single
            updates move the mode of the policy by more than a task such as inserting a peg forgives.
        action_size: A.
        device: on which the parameters are.

    Args:
        config: of the agent.
        spec: of the environment.
        seed: of the run.
        further_inputs: width of what a subclass puts before the vector of observations.

    Raises:
        ConfigError: see :class:`.ObservationVector`.
        SpecError: if the action is no vector.
    """

    def __init__(self, config: PolicyConfig, spec: EnvSpec, seed: int, *, further_inputs: int = 0) -> None:
        if len(spec.action.shape) != 1:
            raise SpecError(f"action: expected a vector, got shape {spec.action.shape}")
        self.action_size = spec.action.shape[0]
        self.observations = ObservationVector(spec, config.observation_keys, config.normalise_observations)
        self.input_size = further_inputs + self.observations.size
        self.device = choose_device(config.device)
        self._config = config
        parameters = self.initial_actor(torch.Generator().manual_seed(derive_seed(seed, "agent", "actor")))
        self.parameters: Parameters = {name: tensor.to(self.device) for name, tensor in parameters.items()}
        self.averaged: Parameters = {name: tensor.clone() for name, tensor in self.parameters.items()}
        self.exploration = torch.Generator().manual_seed(derive_seed(seed, "agent", "exploration"))
        self._activation = config.activation

    def initial_actor(self, generator: torch.Generator) -> Parameters:
        """Return new parameters ``actor/...``, as before anything is learned."""
        config = self._config
        parameters = initialise_network(
            "actor",
            (self.input_size, *config.hidden, 2 * self.action_size),
            generator,
            layer_norm=config.actor_layer_norm,
            output_gain=INITIAL_OUTPUT_GAIN,
            network=config.network,
        )
        parameters["actor/output/bias"][self.action_size :] = config.initial_log_std
        return parameters

    @torch.inference_mode()
    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return an action (A,) in [-1, 1]: tanh of the averaged policy's mean, or a sample if ``explore``."""
        parameters = self.parameters if explore else self.averaged
        mean, log_std = actor_distribution(parameters, self.row(parameters, observation), self._activation)
        if explore:
            mean = mean + log_std.exp() * torch.randn(1, self.action_size, generator=self.exploration).to(self.device)
        action: NDArray[np.float32] = mean.tanh().squeeze(0).numpy(force=True)
        return action

    def average(self, share: float) -> None:
        """Move the running average by ``share`` towards the parameters; 1 makes it equal to them."""
        for name, tensor in self.averaged.items():
            tensor.lerp_(self.parameters[name], share)

    def row(self, parameters: Parameters, observation: Observation) -> Tensor:
        """Return the network's input (1, input_size) for one observation; ``parameters`` may encode it."""
        return torch.from_numpy(self.observations.one(observation)).unsqueeze(0).to(self.device)

    def distribution(self, batch: Batch) -> Callable[[Parameters], tuple[Tensor, Tensor]]:
        """Return the function that gives mean and log deviation (B, A) in the rows of ``batch``, for parameters."""
        rows = torch.from_numpy(self.observations.rows(batch)).to(self.device)
        return lambda parameters: actor_distribution(parameters, rows, self._activation)

    def slots(self) -> dict[str, Tensor]:
        """Return the tensors that make the policy: parameters, their average and normalisation."""
        return self.parameters | prefixed("averaged", self.averaged) | prefixed("normaliser", self.observations.slots())

    def state(self) -> State:
        """Return what ``act`` alone needs, without the exploration generator."""
        return save_slots(self.slots())

    def load(self, state: State) -> None:
        """Take over a ``state``.

        Raises:
            CheckpointError: naming the first name or shape that is not this policy's.
        """
        load_slots(self.slots(), state, "the policy")

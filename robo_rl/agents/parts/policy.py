"""Policies of networks: the part of an agent that acts, without anything that only learning needs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, Decision, EnvSpec, Observation, SpecError, State, derive_seed

from .device import choose_device
from .networks import Parameters, actor_distribution, actor_mode, initialise_network, track
from .observations import ObservationVector
from .plan import ActionPlan
from .slots import load_slots, prefixed, save_slots

INITIAL_OUTPUT_GAIN = 0.01
"""Small, so that the first actions are near zero and the entropy is the same everywhere."""


class PolicyConfig(Protocol):
    """The fields of an agent's configuration that every policy reads; see :class:`.SACConfig`."""

    @property
    def hidden(self) -> tuple[int, ...]: ...
    @property
    def activation(self) -> str: ...
    @property
    def actor_layer_norm(self) -> bool: ...
    @property
    def observation_keys(self) -> tuple[str, ...] | None: ...
    @property
    def normalise_observations(self) -> bool: ...
    @property
    def device(self) -> str: ...
    @property
    def action_chunk(self) -> int: ...


class GaussianConfig(PolicyConfig, Protocol):
    """The fields that a Gaussian policy reads."""

    @property
    def initial_log_std(self) -> float: ...
    @property
    def sampled_actions(self) -> bool: ...


class NetworkPolicy(ABC):
    """A policy that chooses actions by networks. Subclasses define the networks and how they decide.

    With action chunks the networks compute the actions of h steps at once, and :meth:`act` returns one after another.

    Attributes:
        config: the configuration.
        observations: computes the networks' input.
        input_size: width of the networks' input.
        parameters: parameters of the acting networks, trained in place by the agent.
        averaged: running average of the parameters (Polyak and Juditsky 1992), which acts without exploration: single
            updates move the mode of the policy by more than a task such as inserting a peg tolerates.
        action_size: elements of one decision, h A: a whole chunk.
        device: device of the parameters.
        exploration: generator of the exploration noise.

    Args:
        config: configuration of the agent.
        spec: spec of the environment.
        seed: seed of the run.
        further_inputs: width of the input that a subclass puts before the vector of observations.

    Raises:
        ConfigError: see :class:`.ObservationVector`.
        SpecError: if the action is not a vector.
    """

    def __init__(self, config: PolicyConfig, spec: EnvSpec, seed: int, *, further_inputs: int = 0) -> None:
        if len(spec.action.shape) != 1:
            raise SpecError(f"action: expected a vector, got shape {spec.action.shape}")
        self.action_size = config.action_chunk * spec.action.shape[0]
        self.observations = ObservationVector(spec, config.observation_keys, config.normalise_observations)
        self.input_size = further_inputs + self.observations.size
        self.device = choose_device(config.device)
        self.config = config
        parameters = self.initial_actor(torch.Generator().manual_seed(derive_seed(seed, "agent", "actor")))
        self.parameters: Parameters = {name: tensor.to(self.device) for name, tensor in parameters.items()}
        self.averaged: Parameters = {name: tensor.clone() for name, tensor in self.parameters.items()}
        self.exploration = torch.Generator().manual_seed(derive_seed(seed, "agent", "exploration"))
        # With and without exploration: an evaluation within an episode does not change the chunk of the training.
        self._plans = {explore: ActionPlan(config.action_chunk, spec.action.shape[0]) for explore in (False, True)}

    @abstractmethod
    def initial_actor(self, generator: torch.Generator) -> Parameters:
        """Return initial parameters of the acting networks."""

    @abstractmethod
    def _decide(self, observation: Observation, sample: bool) -> NDArray[np.float32]:
        """Return a chunk of actions (h A,) in [-1, 1]; with ``sample``, an exploring one."""

    def act(self, observation: Observation, *, explore: bool, sample: bool = True) -> NDArray[np.float32]:
        """Return an action (A,) in [-1, 1], with exploration if ``explore``.

        Without ``sample``, the averaged policy acts even if ``explore`` is true.
        """
        plan = self._plans[explore]
        if not plan.left:
            plan.follow(self._decide(observation, explore and sample))
        return plan.next()

    def forget_plan(self, *, explore: bool) -> None:
        """Discard the rest of a chunk of actions; see :class:`~robo_rl.core.Policy`."""
        self._plans[explore].forget()

    def average(self, share: float) -> None:
        """Move the running average by ``share`` towards the parameters; 1 makes it equal to them."""
        track(self.averaged, self.parameters, share)

    def row(self, parameters: Parameters, observation: Observation) -> Tensor:
        """Return the network's input (1, input_size) for one observation; ``parameters`` may encode it."""
        return torch.from_numpy(self.observations.one(observation)).unsqueeze(0).to(self.device)

    @abstractmethod
    def mode(self, row: Tensor, noise: Tensor) -> Tensor:
        """Return the chunk (1, h A) that the averaged policy decides without exploration, by tensor operations alone.

        Args:
            row: the network's input (1, input_size).
            noise: (n,), standard normal; n is 0 if the decision is deterministic.
        """

    def tensor_row(self, parameters: Parameters, observation: Mapping[str, Tensor]) -> Tensor:
        """Return the same as :meth:`row`, computed from tensors by tensor operations."""
        return self.observations.tensor(observation).unsqueeze(0)

    def decision(self) -> Decision:
        """Return the decision without exploration as a function of tensors."""
        return Decision(self._compute, self.observations.keys, self.observations.draw)

    def _compute(self, observation: Mapping[str, Tensor], noise: Tensor) -> Tensor:
        inputs = {key: tensor.to(self.device) for key, tensor in observation.items()}
        chunk = self.mode(self.tensor_row(self.averaged, inputs), noise.to(self.device))
        return chunk.view(self.config.action_chunk, -1)

    def slots(self) -> dict[str, Tensor]:
        """Return the tensors of the policy: parameters, their average and the normalisation."""
        return self.parameters | prefixed("averaged", self.averaged) | prefixed("normaliser", self.observations.slots())

    def plan_slots(self) -> dict[str, Tensor]:
        """Return the tensors of the rest of chunks of actions; none if every step is decided separately."""
        if self.config.action_chunk == 1:
            return {}
        names = {True: "exploring_plan", False: "plan"}
        return {f"{names[e]}/{name}": x for e, plan in self._plans.items() for name, x in plan.slots().items()}

    def state(self) -> State:
        """Return the state that ``act`` needs, without the exploration generator and the rest of chunks."""
        return save_slots(self.slots())

    def load(self, state: State) -> None:
        """Copy ``state`` into this policy.

        Raises:
            CheckpointError: naming the first name or shape that does not match this policy.
        """
        load_slots(self.slots(), state, "the policy")


class TanhGaussianPolicy(NetworkPolicy):
    """A policy of actions tanh(u) with u Gaussian, whose mean and deviation come from the network ``actor``.

    It explores by samples. Without exploration, the averaged policy acts: by its mode, tanh of the mean, or, with
    ``sampled_actions``, by samples, too. The latter have a generator of their own, so that evaluations during training
    do not change its exploration. Arguments and errors are those of :class:`NetworkPolicy`.
    """

    config: GaussianConfig

    def __init__(self, config: GaussianConfig, spec: EnvSpec, seed: int, *, further_inputs: int = 0) -> None:
        super().__init__(config, spec, seed, further_inputs=further_inputs)
        self._noise_seed = derive_seed(seed, "agent", "evaluation")
        self._evaluation = torch.Generator().manual_seed(self._noise_seed)

    def generators(self) -> dict[str, torch.Generator]:
        """Return the generators of the noise by name, for use with and without exploration."""
        evaluation = {"evaluation": self._evaluation} if self.config.sampled_actions else {}
        return {"exploration": self.exploration} | evaluation

    def initial_actor(self, generator: torch.Generator) -> Parameters:
        """Return initial parameters ``actor/...``."""
        config = self.config
        parameters = initialise_network(
            "actor",
            (self.input_size, *config.hidden, 2 * self.action_size),
            generator,
            layer_norm=config.actor_layer_norm,
            output_gain=INITIAL_OUTPUT_GAIN,
        )
        parameters["actor/output/bias"][self.action_size :] = config.initial_log_std
        return parameters

    @torch.inference_mode()
    def _decide(self, observation: Observation, sample: bool) -> NDArray[np.float32]:
        """Return a chunk of actions (h A,)."""
        parameters = self.parameters if sample else self.averaged
        mean, log_std = actor_distribution(parameters, self.row(parameters, observation), self.config.activation)
        if sample or self.config.sampled_actions:
            generator = self.exploration if sample else self._evaluation
            mean = mean + log_std.exp() * torch.randn(1, self.action_size, generator=generator).to(self.device)
        chunk: NDArray[np.float32] = mean.tanh().squeeze(0).numpy(force=True)
        return chunk

    def mode(self, row: Tensor, noise: Tensor) -> Tensor:
        """Return the mode of the distribution (1, h A), or the sample that follows from ``noise`` (h A,)."""
        if not self.config.sampled_actions:
            return actor_mode(self.averaged, row, self.config.activation)
        mean, log_std = actor_distribution(self.averaged, row, self.config.activation)
        return (mean + log_std.exp() * noise).tanh()

    def decision(self) -> Decision:
        """Return the decision without exploration as a function of tensors, and of noise with ``sampled_actions``."""
        if not self.config.sampled_actions:
            return super().decision()
        return replace(super().decision(), noise_size=self.action_size, noise_seed=self._noise_seed)

    def distribution(self, batch: Batch) -> Callable[[Parameters], tuple[Tensor, Tensor]]:
        """Return the function from parameters to mean and log deviation (B, A) for the rows of ``batch``."""
        rows = torch.from_numpy(self.observations.rows(batch)).to(self.device)
        return lambda parameters: actor_distribution(parameters, rows, self.config.activation)

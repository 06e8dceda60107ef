"""Flow matching (Lipman et al. 2023): a velocity field that moves noise to action chunks, and its policy.

The field v(s, x, t) is learned by regression. With noise x_0 and a demonstrated chunk x_1, at
x_t = (1 - t) x_0 + t x_1 the velocity is x_1 - x_0. Where several chunks are demonstrated for one observation, the
samples keep them apart, while a regression of the chunk itself returns their mean.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Decision, EnvSpec, Observation, derive_seed

from .adam import Adam
from .networks import Parameters, apply_network, initialise_network
from .policy import NetworkPolicy, PolicyConfig

TIME_OCTAVES = 4
"""Frequencies of the time embedding: half a period in [0, 1] for the first, twice the previous one after that."""
MAX_GUIDANCE = 5.0
"""Largest strength of the guidance to known actions, as in the paper."""


class FlowConfig(PolicyConfig, Protocol):
    """The fields that a flow reads."""

    @property
    def flow_steps(self) -> int: ...


def initialise_flow(config: PolicyConfig, inputs: int, action_size: int, generator: torch.Generator) -> Parameters:
    """Return new parameters ``flow/...`` of the velocity field of chunks (action_size,) given rows (inputs,)."""
    return initialise_network(
        "flow",
        (inputs + action_size + 1 + 2 * TIME_OCTAVES, *config.hidden, action_size),
        generator,
        layer_norm=config.actor_layer_norm,
        output_gain=1.0,
    )


def velocity(parameters: Parameters, observation: Tensor, chunk: Tensor, time: Tensor, activation: str) -> Tensor:
    """Return the velocity (B, A) of chunks (B, A) at the times (B, 1), given the rows of observations (B, O)."""
    angle = time * (math.pi * 2.0 ** torch.arange(TIME_OCTAVES, dtype=time.dtype, device=time.device))
    row = torch.cat((observation, chunk, time, angle.sin(), angle.cos()), dim=-1)
    return apply_network(parameters, "flow", row, activation)


def flow_matching_loss(
    parameters: Parameters,
    observation: Tensor,
    chunk: Tensor,
    noise: Tensor,
    time: Tensor,
    activation: str,
    weight: Tensor | None = None,
) -> Tensor:
    """Return the mean of |v(s, x_t, t) - (x_1 - x_0)|^2 over elements and, with ``weight``, over rows.

    Args:
        parameters: ``flow/...``.
        observation: (B, O).
        chunk: x_1, (B, A).
        noise: x_0, (B, A).
        time: t in [0, 1], (B, 1).
        activation: of the network.
        weight: weight of each row (B,), with a mean of 1; None: 1 for all rows.
    """
    interpolated = torch.lerp(noise, chunk, time)
    error = velocity(parameters, observation, interpolated, time, activation) - (chunk - noise)
    return error.square().mean() if weight is None else (error.square().mean(1) * weight).mean()


def draw_flow(chunk: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return new noise (B, A) and times (B, 1) for a gradient step on chunks (B, A)."""
    return torch.randn(chunk.shape, generator=generator), torch.rand(len(chunk), 1, generator=generator)


def descend_flow(
    optimiser: Adam,
    observation: Tensor,
    chunk: Tensor,
    generator: torch.Generator,
    activation: str,
    step: int,
    weight: Tensor | None = None,
) -> Tensor:
    """Take one gradient step of the network ``flow`` on chunks (B, A), with new noise and times; return the loss.

    For ``weight`` see :func:`flow_matching_loss`.
    """
    noise, time = draw_flow(chunk, generator)
    return optimiser.descend(
        "flow", lambda flow: flow_matching_loss(flow, observation, chunk, noise, time, activation, weight), step
    )


def integrate(field: Callable[[Tensor, float], Tensor], start: Tensor, steps: int) -> Tensor:
    """Return the end at t = 1 of the path from ``start`` at t = 0 with velocities ``field`` (x, t), by Euler steps."""
    x = start
    for k in range(steps):
        x = x + field(x, k / steps) / steps
    return x


def sample_flow(parameters: Parameters, observation: Tensor, noise: Tensor, config: FlowConfig) -> Tensor:
    """Return the chunks (B, A) in [-1, 1] to which the flow moves ``noise`` (B, A), given observations (B, O)."""

    def field(x: Tensor, time: float) -> Tensor:
        return velocity(parameters, observation, x, x.new_full((len(x), 1), time), config.activation)

    return integrate(field, noise, config.flow_steps).clamp(-1, 1)


def inpaint_flow(
    parameters: Parameters, observation: Tensor, noise: Tensor, known: Tensor, weights: Tensor, config: FlowConfig
) -> Tensor:
    """Return the chunks (B, A) in [-1, 1] to which the flow moves ``noise`` (B, A) while it is guided to known ones.

    Guidance is that of real-time chunking (Black, Galliker and Levine 2025): each step adds the gradient by which the
    chunk that is expected at t = 1 comes closer to the known one. Not for use in inference mode.

    Args:
        parameters: ``flow/...``.
        observation: (B, O).
        noise: x_0, (B, A).
        known: the known chunk (B, A).
        weights: weight (B, A) in [0, 1] of each element of ``known``; 0: it is free.
        config: configuration of the flow.
    """

    def field(x: Tensor, time: float) -> Tensor:
        with torch.enable_grad():
            start = x.detach().requires_grad_()
            moment = x.new_full((len(x), 1), time)
            speed = velocity(parameters, observation, start, moment, config.activation)
            end = start + (1 - time) * speed
            (gradient,) = torch.autograd.grad(end, start, weights * (known - end.detach()))
        remaining = (1 - time) ** 2
        strength = MAX_GUIDANCE if time == 0 else min(MAX_GUIDANCE, (time**2 + remaining) / (time * (1 - time)))
        return speed.detach() + strength * gradient

    return integrate(field, noise, config.flow_steps).clamp(-1, 1)


class SampledPolicy(NetworkPolicy):
    """A policy whose chunks are functions of the observation and of noise, so that it can keep several modes apart.

    It also samples without exploration: the mode of such a distribution cannot be computed. These samples use the
    averaged parameters and a separate generator, derived from the seed: an evaluation of a saved policy can be repeated
    exactly, and evaluations during training do not change its exploration.

    Arguments, attributes and errors are those of :class:`.NetworkPolicy`.
    """

    config: FlowConfig

    def __init__(self, config: FlowConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, spec, seed)
        self._noise_seed = derive_seed(seed, "agent", "evaluation")
        self._evaluation = torch.Generator().manual_seed(self._noise_seed)

    @property
    def samples(self) -> int:
        """Rows of noise for one decision."""
        return 1

    @abstractmethod
    def from_noise(self, parameters: Parameters, observation: Tensor, noise: Tensor) -> Tensor:
        """Return a chunk for each of the observations (B, O): (B, A) in [-1, 1], from ``noise`` (B * samples, A)."""

    def chunks(self, parameters: Parameters, observation: Tensor, generator: torch.Generator) -> Tensor:
        """Return a chunk for each of the observations (B, O): (B, A) in [-1, 1], with noise from ``generator``."""
        noise = torch.randn(len(observation) * self.samples, self.action_size, generator=generator)
        return self.from_noise(parameters, observation, noise)

    def mode(self, row: Tensor, noise: Tensor) -> Tensor:
        """Return the chunk (1, h A) that follows from ``noise`` (samples * h A,)."""
        return self.from_noise(self.averaged, row, noise.view(self.samples, self.action_size))

    def decision(self) -> Decision:
        """Return the decision as a function of the observation and of noise."""
        return replace(super().decision(), noise_size=self.samples * self.action_size, noise_seed=self._noise_seed)

    def generators(self) -> dict[str, torch.Generator]:
        """Return the generators of the noise by name, for use with and without exploration."""
        return {"exploration": self.exploration, "evaluation": self._evaluation}

    @torch.inference_mode()
    def _decide(self, observation: Observation, sample: bool) -> NDArray[np.float32]:
        parameters = self.parameters if sample else self.averaged
        generator = self.exploration if sample else self._evaluation
        chunk: NDArray[np.float32] = self.chunks(parameters, self.row(parameters, observation), generator)[0].numpy()
        return chunk


class FlowPolicy(SampledPolicy):
    """A :class:`SampledPolicy` that follows the velocity field ``flow``."""

    def decision(self) -> Decision:
        """Return the decision as a function of the observation and of noise, also for chunks of known actions."""

        def inpaint(observation: Mapping[str, Tensor], noise: Tensor, known: Tensor, weights: Tensor) -> Tensor:
            row, shape = self.tensor_row(self.averaged, observation), known.shape
            kept = weights.unsqueeze(1).expand(shape).reshape(1, -1)
            chunk = inpaint_flow(self.averaged, row, noise.view(1, -1), known.view(1, -1), kept, self.config)
            return chunk.view(shape)

        return replace(super().decision(), inpaint=inpaint)

    def initial_actor(self, generator: torch.Generator) -> Parameters:
        """Return new parameters ``flow/...``."""
        return initialise_flow(self.config, self.input_size, self.action_size, generator)

    def from_noise(self, parameters: Parameters, observation: Tensor, noise: Tensor) -> Tensor:
        """Return the sample of each of the observations (B, O): (B, A) in [-1, 1]."""
        return sample_flow(parameters, observation, noise, self.config)

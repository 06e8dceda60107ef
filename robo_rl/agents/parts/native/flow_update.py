"""Whole updates in C++ of agents with critics of chunks and a flow."""

import ctypes
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.core import NativeBuildError

from ..adam import TrainState
from ..flow import TIME_OCTAVES, draw_flow
from ..native_flow_config import NativeFlowConfig
from ..networks import Parameters
from ..offline_agent import Rows
from .library import WITHOUT_NORM, StoredTensors, available, library, made, pointer

METRICS = ("critic_loss", "q_mean", "q_abs_max", "target_mean", "flow_loss", "distillation_loss", "actor_q")
"""The metrics in the order of flow_update.h."""
METRICS_OF_CRITICS = ("critic_loss", "q_mean", "q_abs_max", "target_mean", "actor_q")
METRICS_OF_ACTOR = ("distillation_loss", "actor_q")


class FlowNoise(NamedTuple):
    """The randomness of a minibatch.

    Attributes:
        target: noise of the policy's next chunks (B * samples, A); None: the critics do not learn.
        flow: noise from which the flow is learned (B, A).
        time: times at which it is learned (B, 1).
        actor: noise of the actor's chunks (B, A); None: there is no actor.
    """

    target: Tensor | None
    flow: Tensor
    time: Tensor
    actor: Tensor | None


def draw_noise(config: NativeFlowConfig, chunk: Tensor, generator: torch.Generator, samples: int) -> FlowNoise:
    """Return the noise for chunks (B, A), drawn in the order of :class:`..flow_actor_critic.FlowActorCritic`.

    Args:
        config: configuration of the agent.
        chunk: chunks (B, A) of a minibatch.
        generator: source of the noise.
        samples: number of chunks that are sampled for each target; 0: the critics do not learn.
    """
    target = torch.randn(len(chunk) * samples, chunk.shape[1], generator=generator) if samples else None
    flow, time = draw_flow(chunk, generator)
    actor = None if config.candidates else torch.randn(chunk.shape, generator=generator)
    return FlowNoise(target, flow, time, actor)


class _Settings(ctypes.Structure):
    """``FlowSettings`` of flow_update.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("observation_size", "action_size", "ensemble", "batch", "threads")),
        *((name, ctypes.c_int32) for name in ("flow_steps", "time_octaves", "candidates")),
        *((name, ctypes.c_int32) for name in ("target_minimum", "normalise_values")),
        *((name, ctypes.c_double) for name in ("learning_rate", "distillation_weight")),
    )


class _Inputs(ctypes.Structure):
    """``FlowInputs`` of flow_update.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("observation", "chunk", "weight")),
        *((name, ctypes.c_void_p) for name in ("action", "reward", "discount", "next_observation")),
        *((name, ctypes.c_void_p) for name in ("target_noise", "flow_noise", "time", "actor_noise")),
        ("tau", ctypes.c_double),
        ("candidates", ctypes.c_int32),
    )


class NativeFlowUpdate:
    """A step of :class:`..flow_actor_critic.FlowActorCritic` on one minibatch.

    For requirements on tensors, threads and forks see :class:`robo_rl.agents.sac.native_update.NativeUpdate`.

    Args:
        config: configuration of the agent. Without ``candidates`` its policy is the network ``actor``.
        precision: precision of the factors of products, ``float32`` or ``bfloat16``.
        state: ``flow/...``, ``critic/...`` and ``actor/...`` with moments, trained in place.
        averaged: running averages of the critics and of the policy, updated in place.
        rows: rows B of a minibatch.

    Raises:
        NativeBuildError: if :func:`available` is false.
        ValueError: if a tensor is not a contiguous float32 tensor on the CPU with the shape that the config implies.
    """

    def __init__(
        self, config: NativeFlowConfig, precision: str, state: TrainState, averaged: Parameters, rows: int
    ) -> None:
        self._handle: int | None = None
        self._library = library()
        self._config, self.rows = config, rows
        self._action_size = state.parameters["flow/output/bias"].shape[0]
        self._observation_size = state.parameters["critic/0/weight"].shape[1] - self._action_size
        settings = _Settings(
            observation_size=self._observation_size,
            action_size=self._action_size,
            ensemble=config.ensemble_size,
            batch=rows,
            threads=torch.get_num_threads(),
            flow_steps=config.flow_steps,
            time_octaves=TIME_OCTAVES,
            candidates=config.candidates,
            target_minimum=config.target_q == "min",
            normalise_values=config.normalise_q,
            learning_rate=config.learning_rate,
            distillation_weight=config.distillation_weight,
        )
        is_available, reason = available(precision)
        if not is_available:
            raise NativeBuildError(reason)
        # A reference, so that the memory lives as long as the pointers to it.
        stored = StoredTensors(state._replace(parameters=state.parameters | _targets(averaged)))
        self._tensors = list(self._stored_tensors(stored))
        self._handle = made(
            self._library.robo_rl_flow_update_new,
            (ctypes.byref(settings), ctypes.c_int(precision == "bfloat16")),
            config,
            self._tensors,
            "the native update",
        )

    def __call__(
        self,
        observation: Tensor,
        chunk: Tensor,
        weight: Tensor,
        noise: FlowNoise,
        rows: Rows | None,
        *,
        critic_updates: int,
        updates: int,
        tau: float,
    ) -> dict[str, float]:
        """Take a step of all networks; return the metrics.

        Args:
            observation: (B, O).
            chunk: chunks (B, A) that the flow learns.
            weight: weight of each of them (B,), with a mean of 1.
            noise: the randomness.
            rows: rows of which the critics learn; None: neither the critics nor, from these, the actor learn.
            critic_updates: number of steps of the critics so far.
            updates: number of steps of the flow so far.
            tau: coefficient of the running averages of the networks that take a step.

        Raises:
            ValueError: if a tensor has a different shape or dtype or is not contiguous.
        """
        b, o, a = self.rows, self._observation_size, self._action_size
        inputs = _Inputs(
            observation=pointer("observation", observation, (b, o)),
            chunk=pointer("chunk", chunk, (b, a)),
            weight=pointer("weight", weight, (b,)),
            flow_noise=pointer("noise.flow", noise.flow, (b, a)),
            time=pointer("noise.time", noise.time, (b, 1)),
            tau=tau,
        )
        if rows is not None and noise.target is not None:
            inputs.action = pointer("action", rows.action, (b, a))
            inputs.reward = pointer("reward", rows.reward, (b,))
            inputs.discount = pointer("discount", rows.discount, (b,))
            inputs.next_observation = pointer("next_observation", rows.next_observation, (b, o))
            samples = max(1, min(len(noise.target) // b, self._config.candidates))
            inputs.candidates = samples if self._config.candidates else 0
            inputs.target_noise = pointer("noise.target", noise.target, (b * samples, a))
        if noise.actor is not None:
            inputs.actor_noise = pointer("noise.actor", noise.actor, (b, a))
        values = torch.empty(len(METRICS))
        self._library.robo_rl_flow_update_run(
            self._handle, ctypes.byref(inputs), critic_updates, updates, values.data_ptr()
        )
        named = dict(zip(METRICS, values.tolist(), strict=True))
        absent = (*(METRICS_OF_CRITICS if rows is None else ()), *(METRICS_OF_ACTOR if noise.actor is None else ()))
        return {name: value for name, value in named.items() if name not in absent}

    def __del__(self) -> None:
        if self._handle:
            self._library.robo_rl_flow_update_delete(self._handle)
            self._handle = None

    def _stored_tensors(self, stored: StoredTensors) -> Iterator[Tensor | None]:
        """Yield value, moments and average of each parameter, in the order in which library.cpp reads them."""
        config, o, a = self._config, self._observation_size, self._action_size
        flow, pair = o + a + 1 + 2 * TIME_OCTAVES, o + a
        yield from stored.network("flow", (flow, *config.hidden, a), config.actor_layer_norm)
        yield from WITHOUT_NORM
        yield from stored.network("critic", (pair, *config.hidden, 1), config.layer_norm, (config.ensemble_size,))
        if not config.candidates:
            yield from stored.network("actor", (pair, *config.hidden, a), config.actor_layer_norm)
            yield from WITHOUT_NORM


def _targets(averaged: Parameters) -> Parameters:
    """Return running averages under the names at which :class:`StoredTensors` looks for them."""
    return {f"target_{name}": tensor for name, tensor in averaged.items()}

"""The base class of agents with critics of chunks and a flow whose updates are computed in C++ where possible."""

import torch

from robo_rl.core import Batch, Metrics

from .convergence import check_convergence
from .flow import SampledPolicy
from .flow_actor_critic import FlowActorCritic
from .flow_precision import choose
from .native.flow_update import NativeFlowUpdate, draw_noise
from .native_flow_config import NativeFlowConfig
from .networks import Parameters, track


class NativeFlowAgent(FlowActorCritic):
    """A :class:`.FlowActorCritic` with an implementation of its steps in C++.

    Both implementations draw the same noise, and compute the same up to rounding.

    Arguments are those of :class:`.FlowActorCritic`.

    Raises:
        ConfigError: if the native update is requested and not available.
    """

    config: NativeFlowConfig

    def __init__(self, config: NativeFlowConfig, policy: SampledPolicy, networks: Parameters, seed: int) -> None:
        super().__init__(config, policy, networks, seed)
        self._precision, self.implementation = choose(config)
        self._native: NativeFlowUpdate | None = None

    def pretrain(self, batch: Batch) -> Metrics:
        """Take one step of cloning; see :meth:`.FlowActorCritic.pretrain`.

        Raises:
            DivergenceError: if a loss is not finite.
        """
        if self._precision is None:
            return super().pretrain(batch)
        tau = max(self.config.tau, 1 / (int(self._updates) + 1))
        metrics = self._native_step(batch, self._precision, tau, critics_learn=False)
        self._require_finite(metrics, int(self._updates))
        critics = {name: tensor for name, tensor in self._averaged.items() if name.startswith("critic/")}
        with torch.no_grad():
            track(critics, self._parameters, tau)
        return metrics

    def _learn(self, batch: Batch) -> Metrics:
        if self._precision is None:
            return super()._learn(batch)
        metrics = self._native_step(batch, self._precision, self.config.tau, critics_learn=True)
        step = f"update {int(self._critic_updates)}"
        check_convergence(metrics, self._parameters, self.config.q_limit, step)
        return metrics

    def _native_step(self, batch: Batch, precision: str, tau: float, *, critics_learn: bool) -> Metrics:
        chunk, rows = self._cloned(batch), self._rows(batch) if critics_learn else None
        observation = rows.observation if rows else torch.from_numpy(self._policy.observations.rows(batch))
        if self._native is None or self._native.rows != len(chunk):
            state = self._optimiser.state
            self._native = NativeFlowUpdate(self.config, precision, state, self._averaged, len(chunk))
        samples = self._policy.samples if critics_learn else 0
        noise = draw_noise(self.config, chunk, self._noise, samples)
        counts = {"critic_updates": int(self._critic_updates), "updates": int(self._updates)}
        weight = self._imitation_weights(batch)
        metrics = self._native(observation, chunk, weight, noise, rows, tau=tau, **counts)
        self._critic_updates += critics_learn
        self._updates += 1
        return metrics

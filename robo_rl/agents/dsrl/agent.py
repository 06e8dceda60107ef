"""The agent of diffusion steering (Wagenmaker et al. 2025)."""

import math
from typing import Any

import torch
from torch import Tensor

from robo_rl.core import Agent, Batch, ConfigError, EnvSpec, Metrics, derive_seed

from ..flow.agent import FlowCloning
from ..parts.flow import sample_flow
from ..parts.flow_actor_critic import FlowActorCritic, aggregate, initialise_critics
from ..parts.networks import Parameters, actor_distribution, critic_values, sample_action
from ..parts.slots import load_slots
from ..parts.warm_start import check_policy
from .config import DSRLConfig
from .policy import SteeredPolicy


class DSRL(FlowActorCritic):
    """An agent that learns which noise a frozen flow should start from; see :class:`DSRLConfig`.

    The flow is cloned from demonstrations or taken over from a run of ``agent=flow``. It does not change once the
    critics learn. Each step then updates, one after another,

    - the critics of executed chunks, as in every :class:`.FlowActorCritic`;
    - critics of noise (``noise_critic``): the value of standard normal noise is that of the chunk into which the flow
      turns it, for each critic separately, so that data need not contain the noise of executed chunks;
    - the actor, by the values of its noise and its entropy, and the temperature.

    Further differences from the paper: every step updates the critics of noise; targets contain no entropy, as in the
    authors' code for pi0; all networks have the same sizes.
    """

    config: DSRLConfig
    _policy: SteeredPolicy

    def __init__(self, config: DSRLConfig, spec: EnvSpec, seed: int) -> None:
        policy = SteeredPolicy(config, spec, seed)
        source = torch.Generator().manual_seed(derive_seed(seed, "agent", "critic"))
        inputs = policy.input_size + policy.action_size
        critics, noise_critics = (initialise_critics(config, inputs, source) for _ in range(2))
        networks = critics | {f"noise_{name}": tensor for name, tensor in noise_critics.items()}
        networks["temperature/log_alpha"] = torch.tensor(math.log(config.initial_temperature))
        super().__init__(config, policy, networks, seed)

    def start_from(self, other: Agent, *, critics: bool) -> tuple[str, ...]:
        """Do the same as :meth:`.PolicyAgent.start_from`, also from an agent of ``agent=flow``, whose flow is steered.

        Raises:
            ConfigError: as there.
        """
        if not isinstance(other, FlowCloning):
            return super().start_from(other, critics=critics)
        if critics:
            raise ConfigError(f"agent {type(other).__name__} has no critics to start from")
        check_policy(other, self.config, self.observed)
        taken = {name: x for name, x in self._slots().items() if name.startswith(("averaged/flow/", "normaliser/"))}
        state = other.state()
        load_slots(taken, {name: state[name] for name in taken}, "the agent")
        self._freeze()
        return ("policy", "normalisation") if self._policy.observations.fitted else ("policy",)

    @torch.no_grad()
    def _learn(self, batch: Batch) -> Metrics:
        if not self._critic_updates:
            self._freeze()
        return super()._learn(batch)

    def _freeze(self) -> None:
        """Let the average of the flow, which acts in evaluations, be the flow."""
        policy = self._policy
        for name, tensor in policy.averaged.items():
            if name.startswith("flow/"):
                policy.parameters[name].copy_(tensor)

    def _clone(self, batch: Batch, *, use_critics: bool) -> Metrics:
        """Take a step of the flow or, when the critics learn, of what steers it; return the metrics."""
        if not use_critics:
            return super()._clone(batch, use_critics=False)
        self._updates += 1
        step, delay = int(self._critic_updates), self.config.actor_delay
        observation = torch.from_numpy(self._policy.observations.rows(batch))
        metrics = self._learn_noise_values(observation, step)
        if step > delay:
            self._policy.steer()
            metrics |= self._learn_noise(observation, step - delay)
        return metrics

    def _learn_noise_values(self, observation: Tensor, step: int) -> Metrics:
        """Take a step of the critics of noise; return ``noise_critic_loss``, the mean squared error of values."""
        config, parameters = self.config, self._parameters
        noise = torch.randn(len(observation), self._policy.action_size, generator=self._noise)
        chunk = sample_flow(parameters, observation, noise, config)
        target = critic_values(parameters, "critic", observation, chunk, config.activation)

        def loss(critic: Parameters) -> Tensor:
            values = critic_values(critic, "noise_critic", observation, noise, config.activation)
            return (values - target).square().mean(1).sum()

        total = self._optimiser.descend("noise_critic", loss, step)
        return {"noise_critic_loss": float(total) / config.ensemble_size}

    def _learn_noise(self, observation: Tensor, step: int) -> Metrics:
        """Take a step of actor and temperature.

        Returns:
            ``actor_q``, the value of the actor's noise; ``entropy`` [nat]; ``temperature`` before its step.
        """
        config, parameters = self.config, self._parameters
        draws = torch.randn(len(observation), self._policy.action_size, generator=self._noise)
        temperature = parameters["temperature/log_alpha"].exp()

        def loss(actor: Parameters) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            mean, log_std = actor_distribution(actor, observation, config.activation)
            noise, log_density = sample_action(mean, log_std, draws)
            noise = config.noise_bound * noise
            values = critic_values(parameters, "noise_critic", observation, noise, config.activation)
            value, entropy = aggregate(values, config.target_q).mean(), -log_density.mean()
            return -temperature * entropy - value, (value.detach(), entropy.detach())

        gradients, (_, (value, entropy)) = torch.func.grad_and_value(loss, has_aux=True)(
            self._optimiser.network("actor")
        )
        self._optimiser.move(gradients, step)
        # Gradient on the logarithm of the temperature: too much entropy lowers it.
        excess = temperature * (entropy - config.target_entropy)
        self._optimiser.move({"temperature/log_alpha": excess}, step)
        return {"actor_q": float(value), "entropy": float(entropy), "temperature": float(temperature)}


def make_dsrl(*, spec: EnvSpec, seed: int, **fields: Any) -> DSRL:
    """Make the agent from the fields of :class:`DSRLConfig`."""
    return DSRL(DSRLConfig(**fields), spec, seed)

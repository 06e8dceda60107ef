"""The agent of implicit Q-learning (Kostrikov et al. 2022)."""

from typing import Any

import torch
from torch import Tensor

from robo_rl.core import Batch, EnvSpec, Metrics, derive_seed

from ..parts.adam import Adam
from ..parts.losses import expectile_loss
from ..parts.networks import Parameters, actor_mode, apply_network, critic_values, initialise_network, track
from ..parts.offline_agent import OfflineAgent
from ..parts.policy import TanhGaussianPolicy
from .config import IQLConfig

CRITICS = 2


class IQL(OfflineAgent):
    """An agent that learns values of the data set's actions only, and clones the better ones with larger weights; see
    :class:`IQLConfig`.

    With Q the smaller of two target critics, an update moves V towards the expectile of Q, the actor towards the
    actions of the rows, each weighted by exp(beta (Q - V)), and the critics towards the reward plus the discounted V of
    the next observation. The actor's loss is the squared error of its mode: the likelihood of a Gaussian with fixed
    deviation.
    """

    def __init__(self, config: IQLConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(TanhGaussianPolicy(config, spec, seed), config.batch_size)
        self.config = config
        inputs = self._policy.observations.size
        critic = self._network("critic", inputs + self._policy.action_size, seed, CRITICS)
        self._target = {name: tensor.clone() for name, tensor in critic.items()}
        self._parameters = critic | self._network("value", inputs, seed) | self._policy.parameters
        self._optimiser = Adam(self._parameters, config.learning_rate)

    def _network(self, name: str, inputs: int, seed: int, ensemble: int | None = None) -> Parameters:
        return initialise_network(
            name,
            (inputs, *self.config.hidden, 1),
            torch.Generator().manual_seed(derive_seed(seed, "agent", name)),
            layer_norm=self.config.layer_norm,
            output_gain=1.0,
            ensemble=ensemble,
        )

    @torch.no_grad()
    def update(self, batch: Batch) -> Metrics:
        """Take one step on rows of the data set.

        Return ``value_loss``, ``critic_loss`` and ``actor_loss`` before it, the mean value ``value_mean``, and
        ``weight_mean``, the mean weight of the actions.

        Raises:
            DivergenceError: if a loss is not finite.
        """
        config, parameters = self.config, self._parameters
        observation, action, reward, discount, next_observation = self._rows(batch)
        best = critic_values(self._target, "critic", observation, action, config.activation).amin(0)

        def value_loss(value: Parameters) -> tuple[Tensor, Tensor]:
            values = self._values(value, observation)
            return expectile_loss(best - values, config.expectile), values

        def actor_loss(actor: Parameters) -> Tensor:
            mode = actor_mode(actor, observation, config.activation)
            return (weight * (mode - action).square().sum(-1)).mean()

        def critic_loss(critic: Parameters) -> Tensor:
            values = critic_values(critic, "critic", observation, action, config.activation)
            return (values - target).square().mean(1).sum()

        self._updates += 1
        optimiser, step = self._optimiser, int(self._updates)
        gradients, (value_error, values) = torch.func.grad_and_value(value_loss, has_aux=True)(
            optimiser.network("value")
        )
        optimiser.move(gradients, step)
        advantage = best - self._values(parameters, observation)
        weight = (config.inverse_temperature * advantage).exp().clamp(max=config.largest_weight)
        actor_error = optimiser.descend("actor", actor_loss, step)
        target = reward + discount * self._values(parameters, next_observation)
        critic_error = optimiser.descend("critic", critic_loss, step)
        track(self._target, parameters, config.tau)
        self._policy.average(1.0)
        metrics = {
            "value_loss": float(value_error),
            "critic_loss": float(critic_error) / CRITICS,
            "actor_loss": float(actor_error),
            "value_mean": float(values.mean()),
            "weight_mean": float(weight.mean()),
        }
        self._require_finite(metrics, step)
        return metrics

    def _values(self, parameters: Parameters, observation: Tensor) -> Tensor:
        return apply_network(parameters, "value", observation, self.config.activation).squeeze(-1)

    def _slots(self) -> dict[str, Tensor]:
        return (
            self._parameters
            | {f"target_{name}": tensor for name, tensor in self._target.items()}
            | self._policy.slots()
            | self._optimiser.slots()
            | {"updates": self._updates}
        )


def make_iql(*, spec: EnvSpec, seed: int, **fields: Any) -> IQL:
    """Make the agent from the fields of :class:`IQLConfig`."""
    return IQL(IQLConfig(**fields), spec, seed)

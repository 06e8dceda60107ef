"""The agent: implicit Q-learning (Kostrikov et al. 2022)."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, DivergenceError, EnvSpec, Metrics, Observation, State, derive_seed

from ..sac.adam import adam_step, bias_corrections
from ..sac.networks import Parameters, actor_distribution, apply_network, critic_values, initialise_network
from ..sac.policy import TanhGaussianPolicy
from ..sac.slots import load_slots, prefixed, save_slots
from .config import IQLConfig

CRITICS = 2


class IQL:
    """Learns values of the data set's actions, never of others, and imitates the better ones more; see
    :class:`IQLConfig`.

    With Q the smaller of two target critics, an update moves V to the expectile of Q, the actor to the actions of the
    rows, each weighing exp(beta (Q - V)), and the critics to the reward plus the discounted V of the next observation.
    The actor's loss is the squared error of its mode: the likelihood of a Gaussian whose deviation is fixed.

    Attributes:
        config: as given.
        update_rows: rows of the Batch for ``update``, all of the data set.
        backend: which implementation computes updates.
        features: None: no images are looked at.

    Args:
        config: of the agent.
        spec: of the environment.
        seed: of the run.

    Raises:
        ConfigError: if the configuration does not fit the spec.
    """

    def __init__(self, config: IQLConfig, spec: EnvSpec, seed: int) -> None:
        self.config = config
        self.update_rows = config.batch_size
        self.backend = "torch"
        self.features = None
        self._policy = TanhGaussianPolicy(config, spec, seed)
        inputs = self._policy.observations.size
        critic = self._network("critic", inputs + self._policy.action_size, seed, CRITICS)
        self._target = {f"target_{name}": tensor.clone() for name, tensor in critic.items()}
        self._parameters = critic | self._network("value", inputs, seed) | self._policy.parameters
        self._first = {name: torch.zeros_like(tensor) for name, tensor in self._parameters.items()}
        self._second = {name: torch.zeros_like(tensor) for name, tensor in self._parameters.items()}
        self._updates = torch.zeros((), dtype=torch.int64)

    def _network(self, name: str, inputs: int, seed: int, ensemble: int | None = None) -> Parameters:
        return initialise_network(
            name,
            (inputs, *self.config.hidden, 1),
            torch.Generator().manual_seed(derive_seed(seed, "agent", name)),
            layer_norm=self.config.layer_norm,
            output_gain=1.0,
            ensemble=ensemble,
        )

    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return the action (A,) in [-1, 1]; this agent does not explore, whatever ``explore`` says."""
        return self._policy.act(observation, explore=False)

    def fit_normaliser(self, batch: Batch) -> None:
        """Fix the normalisation of observations from the data set, before anything is learned.

        Raises:
            RuntimeError: if the agent has learned already.
        """
        if self._updates:
            raise RuntimeError("the normalisation cannot change once the agent has learned")
        self._policy.observations.fit(batch)

    def pretrain(self, batch: Batch) -> Metrics:
        """The same as :meth:`update`."""
        return self.update(batch)

    @torch.no_grad()
    def update(self, batch: Batch) -> Metrics:
        """Take one step on rows of the data set.

        Return ``value_loss``, ``critic_loss`` and ``actor_loss`` before it, the mean value ``value_mean``, and
        ``weight_mean``, how much the actions count.

        Raises:
            DivergenceError: if a loss is not finite.
        """
        config, parameters = self.config, self._parameters
        observation = torch.from_numpy(self._policy.observations.rows(batch))
        following = torch.from_numpy(self._policy.observations.rows(batch, "next_observation"))
        action, reward, discount = (torch.from_numpy(batch[key]) for key in ("action", "reward", "discount"))
        best = critic_values(self._target, "target_critic", observation, action, config.activation).amin(0)

        def value_loss(value: Parameters) -> tuple[Tensor, Tensor]:
            values = self._values(value, observation)
            return expectile_loss(best - values, config.expectile), values

        def actor_loss(actor: Parameters) -> Tensor:
            mean, _ = actor_distribution(actor, observation, config.activation)
            return (weight * (mean.tanh() - action).square().sum(-1)).mean()

        def critic_loss(critic: Parameters) -> Tensor:
            values = critic_values(critic, "critic", observation, action, config.activation)
            return (values - target).square().mean(1).sum()

        self._updates += 1
        gradients, (value_error, values) = torch.func.grad_and_value(value_loss, has_aux=True)(self._part("value/"))
        self._descend(gradients)
        advantage = best - self._values(parameters, observation)
        weight = (config.inverse_temperature * advantage).exp().clamp(max=config.largest_weight)
        gradients, actor_error = torch.func.grad_and_value(actor_loss)(self._part("actor/"))
        self._descend(gradients)
        target = reward + discount * self._values(parameters, following)
        gradients, critic_error = torch.func.grad_and_value(critic_loss)(self._part("critic/"))
        self._descend(gradients)
        for name, tensor in self._target.items():
            tensor.lerp_(parameters[name.removeprefix("target_")], config.tau)
        self._policy.average(1.0)
        metrics = {
            "value_loss": float(value_error),
            "critic_loss": float(critic_error) / CRITICS,
            "actor_loss": float(actor_error),
            "value_mean": float(values.mean()),
            "weight_mean": float(weight.mean()),
        }
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise DivergenceError(
                    f"training diverged: {name} is {value} at update {int(self._updates)}. Look for values that are "
                    "not finite in the data set, or lower agent.learning_rate."
                )
        return metrics

    def _values(self, parameters: Parameters, observation: Tensor) -> Tensor:
        return apply_network(parameters, "value", observation, self.config.activation).squeeze(-1)

    def _part(self, prefix: str) -> Parameters:
        return {name: tensor for name, tensor in self._parameters.items() if name.startswith(prefix)}

    def _descend(self, gradients: Parameters) -> None:
        corrections = bias_corrections(int(self._updates))
        rate = self.config.learning_rate
        adam_step(self._parameters, gradients, self._first, self._second, rate, corrections)

    def _slots(self) -> dict[str, Tensor]:
        return (
            self._parameters
            | self._target
            | self._policy.slots()
            | prefixed("adam_first", self._first)
            | prefixed("adam_second", self._second)
            | {"updates": self._updates}
        )

    def state(self) -> State:
        """Return parameters, optimiser and counters."""
        return save_slots(self._slots())

    def load(self, state: State) -> None:
        """Go on from ``state`` bit for bit.

        Raises:
            CheckpointError: naming the first name or shape that is not this agent's.
        """
        load_slots(self._slots(), state, "the agent")

    def policy_state(self) -> State:
        """Return what ``act`` alone needs."""
        return self._policy.state()

    def load_policy(self, state: State) -> None:
        """Take over a ``policy_state``.

        Raises:
            CheckpointError: naming the first name or shape that is not this policy's.
        """
        self._policy.load(state)


def expectile_loss(difference: Tensor, expectile: float) -> Tensor:
    """Return the mean of |expectile - 1(u < 0)| u^2 over differences u (B,)."""
    share = torch.where(difference < 0, 1 - expectile, expectile)
    return (share * difference.square()).mean()


def make_iql(*, spec: EnvSpec, seed: int, **fields: Any) -> IQL:
    """Make the agent from the fields of :class:`IQLConfig`."""
    return IQL(IQLConfig(**fields), spec, seed)

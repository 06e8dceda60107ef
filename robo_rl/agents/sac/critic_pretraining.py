"""Offline reinforcement learning from demonstrations, which trains the critics before the first environment step."""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.core import Metrics

from ..parts.adam import TrainState, adam_step, bias_corrections
from ..parts.losses import expectile_loss
from ..parts.networks import (
    Parameters,
    actor_distribution,
    apply_network,
    critic_outputs,
    critic_values,
    initialise_network,
    input_size,
    output_values,
    sample_action,
)
from ..parts.slots import prefixed
from .config import SACConfig
from .update import (
    METRICS,
    Minibatches,
    actor_step,
    critic_error,
    critic_loss,
    critic_metrics,
    critic_target,
    move_targets,
)

CANDIDATES = 4
"""Actions of each of three kinds that Cal-QL compares with a row's action. Its authors draw 10, in twice the time."""


class CriticPretraining(ABC):
    """Steps on demonstrations that update an agent's critics and their targets in place.

    Adam has separate moments here, which the online updates do not use: theirs begin at zero, as their bias
    corrections assume.

    Args:
        config: configuration of the agent.
        parameters: parameters of the agent, and of any other networks that are trained.
        trained: prefixes of the names of the trained parameters.
        noise: source of all randomness.
    """

    def __init__(
        self, config: SACConfig, parameters: Parameters, trained: tuple[str, ...], noise: torch.Generator
    ) -> None:
        self._config = config
        self._parameters = parameters
        self._noise = noise
        self._state = TrainState.of(parameters, lambda name: name.startswith(trained))
        self._steps = torch.zeros((), dtype=torch.int64)

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return int(self._steps)

    @torch.no_grad()
    def step(self, rows: Minibatches, return_to_go: Tensor) -> Metrics:
        """Take one step.

        Args:
            rows: demonstrations, fields without the leading axis U.
            return_to_go: (B,) lower bounds on the demonstrators' return from each row onwards.
        """
        self._steps += 1
        return self._step(rows, return_to_go, torch.tensor(bias_corrections(self.steps)))

    @abstractmethod
    def _step(self, rows: Minibatches, return_to_go: Tensor, corrections: Tensor) -> Metrics:
        """Implement :meth:`step`; ``corrections`` (2,) are the bias corrections of Adam."""

    def slots(self) -> dict[str, Tensor]:
        """Return the optimiser's tensors, and those of networks that only the pretraining uses."""
        return self._state.moments("offline") | {"offline_steps": self._steps}

    def _draw(self, *shape: int) -> Tensor:
        """Return standard normal noise on the device of the parameters."""
        return torch.randn(*shape, generator=self._noise).to(self._parameters["temperature/log_alpha"].device)

    def _draw_subset(self) -> Tensor:
        """Return the indices (M,) of the target critics to use, see :class:`~robo_rl.agents.sac.update.Noise`."""
        order = torch.rand(self._config.ensemble_size, generator=self._noise).argsort()
        return order[: self._config.target_subset].to(self._parameters["temperature/log_alpha"].device)

    def _part(self, prefix: str) -> Parameters:
        return {name: tensor for name, tensor in self._parameters.items() if name.startswith(prefix)}

    def _descend(self, gradients: Parameters, corrections: Tensor) -> None:
        """Take a step of Adam with the critics' learning rate."""
        adam_step(self._state, gradients, self._config.critic_learning_rate, corrections)


class Candidates(NamedTuple):
    """Actions that Cal-QL compares with the action of a row, N for each of B rows.

    Attributes:
        action: (N, B, A).
        log_density: (N, B), log density of each action under the distribution that it was drawn from.
        floor: (N, B), bound to which smaller values are raised: below it the critics are not too optimistic.
    """

    action: Tensor
    log_density: Tensor
    floor: Tensor


class CalQL(CriticPretraining):
    """Calibrated Q-learning (Nakamoto et al. 2023): the update of SAC with one more term in the critics' loss.

    The term lowers the values of untried actions that exceed the value of the demonstrated action, but never below the
    demonstrators' return, so that online learning has nothing to unlearn; see :func:`cal_ql_loss`. Critics, actor and
    temperature take one step each, the actor with the initial cloning weight.
    """

    def __init__(self, config: SACConfig, parameters: Parameters, noise: torch.Generator) -> None:
        super().__init__(config, parameters, ("critic/", "actor/", "temperature/"), noise)

    def _step(self, rows: Minibatches, return_to_go: Tensor, corrections: Tensor) -> Metrics:
        config, parameters = self._config, self._parameters
        next_distribution = self._distribution(rows.next_observation)
        next_draw = sample_action(*next_distribution, self._draw(*rows.action.shape))
        target = critic_target(parameters, config, rows, *next_draw, self._draw_subset())
        candidates = self._candidates(rows, next_distribution, return_to_go)
        temperature = parameters["temperature/log_alpha"].exp()
        gradients, (_, (error, gap, values)) = torch.func.grad_and_value(cal_ql_loss, has_aux=True)(
            self._part("critic/"), config, rows, target, candidates, temperature
        )
        self._descend(gradients, corrections)
        move_targets(parameters, config)
        noise = self._draw(*rows.action.shape)
        actor_metrics = actor_step(self._state, config, rows, noise, corrections)
        metrics = torch.cat((critic_metrics(config, error, values, target), actor_metrics)).tolist()
        return dict(zip(METRICS, metrics, strict=True)) | {"conservative_gap": float(gap) / config.ensemble_size}

    def _distribution(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        return actor_distribution(self._parameters, observation, self._config.activation, self._config.precision)

    def _candidates(
        self, rows: Minibatches, next_distribution: tuple[Tensor, Tensor], return_to_go: Tensor
    ) -> Candidates:
        """Draw uniform actions, which have no floor, and the policy's actions for these and the next observations."""
        shape = (CANDIDATES, *rows.action.shape)
        uniform = 2 * torch.rand(shape, generator=self._noise).to(rows.action.device) - 1
        uniform_density = torch.full(shape[:2], -shape[2] * math.log(2), device=rows.action.device)
        current, current_density = sample_action(*self._distribution(rows.observation), self._draw(*shape))
        following, following_density = sample_action(*next_distribution, self._draw(*shape))
        floor = return_to_go.expand(shape[:2])
        return Candidates(
            torch.cat((uniform, current, following)),
            torch.cat((uniform_density, current_density, following_density)),
            torch.cat((torch.full_like(floor, -math.inf), floor, floor)),
        )


def cal_ql_loss(
    critic: Parameters,
    config: SACConfig,
    rows: Minibatches,
    target: Tensor,
    candidates: Candidates,
    temperature: Tensor,
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Return the loss of the critics Q, summed over them; beside it its two parts and the values (E, B).

    The loss of a critic is its error, see :func:`.critic_error`, plus conservative_weight times the mean over rows of
    V(s) - Q(s, a). V is the largest value of a policy with entropy, T log of the integral of
    exp(max(Q(s, .), floor) / T). It is estimated from the candidates, each weighted by one over its density. The
    authors use T = 1 and rewards of the order of 10; the agent's temperature T suits rewards of any order.

    Args:
        critic: parameters ``critic/...``.
        config: configuration of the agent.
        rows: fields without the leading axis U.
        target: (B,) targets of the critics for the rows.
        candidates: other actions for the same observations.
        temperature: weight of the entropy.
    """
    count = len(candidates.action)
    observation = rows.observation.repeat(1 + count, 1)
    action = torch.cat((rows.action.unsqueeze(0), candidates.action)).flatten(0, 1)
    outputs = critic_outputs(critic, "critic", observation, action, config.activation, config.precision)
    outputs = outputs.view(len(outputs), 1 + count, -1, outputs.shape[-1])
    values = output_values(outputs, config.value_range)
    demonstrated, compared = values[:, 0], values[:, 1:]
    weighted = compared.maximum(candidates.floor) / temperature - candidates.log_density
    soft_value = temperature * (weighted.logsumexp(1) - math.log(count))
    error = critic_error(outputs[:, 0], config, target)
    gap = (soft_value - demonstrated).mean(1).sum()
    return error + config.conservative_weight * gap, (error, gap, demonstrated)


class ImplicitQ(CriticPretraining):
    """Implicit Q-learning (Kostrikov et al. 2022) of the critics, which evaluates demonstrated actions only.

    A network V of observations learns the expectile of the minimum over a random subset of target critics, and all
    critics learn the reward plus the discounted V of the next observation. The actor remains as it was cloned: if all
    demonstrations succeed, a larger weight on the better ones changes little.

    Args:
        config: configuration of the agent.
        parameters: parameters of the agent.
        noise: source of all randomness, and of the initial V.
    """

    def __init__(self, config: SACConfig, parameters: Parameters, noise: torch.Generator) -> None:
        initial = initialise_network(
            "value",
            (input_size(parameters, "actor"), *config.hidden, 1),
            noise,
            layer_norm=config.layer_norm,
            output_gain=1.0,
            network=config.network,
        )
        device = parameters["temperature/log_alpha"].device
        self._value = {name: tensor.to(device) for name, tensor in initial.items()}
        super().__init__(config, parameters | self._value, ("critic/", "value/"), noise)

    def slots(self) -> dict[str, Tensor]:
        """Return the tensors of the optimiser and of V."""
        return super().slots() | prefixed("offline", self._value)

    def _step(self, rows: Minibatches, return_to_go: Tensor, corrections: Tensor) -> Metrics:
        config, subset = self._config, self._draw_subset()
        target_critics = {name: tensor.index_select(0, subset) for name, tensor in self._part("target_critic/").items()}
        best = critic_values(
            target_critics,
            "target_critic",
            rows.observation,
            rows.action,
            config.activation,
            config.precision,
            config.value_range,
        ).amin(0)

        def value_loss(value: Parameters) -> tuple[Tensor, Tensor]:
            values = self._values(value, rows.observation)
            return expectile_loss(best - values, config.expectile), values

        gradients, (value_error, value) = torch.func.grad_and_value(value_loss, has_aux=True)(self._part("value/"))
        self._descend(gradients, corrections)
        target = rows.reward + rows.discount * self._values(self._parameters, rows.next_observation)
        gradients, (total, values) = torch.func.grad_and_value(critic_loss, has_aux=True)(
            self._part("critic/"), config, rows.observation, rows.action, target
        )
        self._descend(gradients, corrections)
        move_targets(self._parameters, config)
        metrics = critic_metrics(config, total, values, target).tolist()
        return dict(zip(METRICS, metrics, strict=False)) | {
            "value_loss": float(value_error),
            "value_mean": float(value.mean()),
        }

    def _values(self, parameters: Parameters, observation: Tensor) -> Tensor:
        config = self._config
        return apply_network(parameters, "value", observation, config.activation, config.precision).squeeze(-1)


def make_critic_pretraining(
    config: SACConfig, parameters: Parameters, noise: torch.Generator
) -> CriticPretraining | None:
    """Return the pretraining that ``config.pretrain_critics`` selects; None for ``none``."""
    kinds = {"cal_ql": CalQL, "iql": ImplicitQ}
    return kinds[config.pretrain_critics](config, parameters, noise) if config.pretrain_critics in kinds else None

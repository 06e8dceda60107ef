"""The base of agents with critics of action chunks and a flow of the chunks in the data."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, Metrics, Observation, derive_seed

from .adam import Adam
from .convergence import check_convergence
from .flow import SampledPolicy, descend_flow
from .flow_actor_critic_config import FlowActorCriticConfig
from .networks import Parameters, critic_values, initialise_network, track
from .offline_agent import OfflineAgent, Rows
from .slots import prefixed


def initialise_critics(config: FlowActorCriticConfig, inputs: int, generator: torch.Generator) -> Parameters:
    """Return new parameters ``critic/...``; ``inputs`` is the width of observation and chunk together."""
    return initialise_network(
        "critic",
        (inputs, *config.hidden, 1),
        generator,
        layer_norm=config.layer_norm,
        output_gain=1.0,
        ensemble=config.ensemble_size,
    )


class FlowActorCritic(OfflineAgent):
    """Learns values of chunks, and the distribution of chunks in the data, from which its policy is extracted.

    An update takes a step of the critics towards the h-step return plus the discounted value of the policy's own chunk
    after it, and a step of the flow. The flow learns by cloning alone, from good and bad rows: what a demonstrator or
    person proposed, and of all other rows what was executed. The critics judge executed chunks. Subclasses extract the
    policy: see :meth:`_extract` and their :class:`.SampledPolicy`.

    Args:
        config: of the agent.
        policy: of the subclass.
        networks: parameters ``flow/...`` and ``critic/...`` where the policy does not have them.
        seed: of the run.
    """

    _policy: SampledPolicy

    def __init__(self, config: FlowActorCriticConfig, policy: SampledPolicy, networks: Parameters, seed: int) -> None:
        super().__init__(policy, config.update_to_data * config.batch_size)
        self.config = config
        self._networks = networks
        critics = {name: tensor.clone() for name, tensor in networks.items() if name.startswith("critic/")}
        self._parameters = policy.parameters | networks
        self._averaged = policy.averaged | critics
        self._optimiser = Adam(self._parameters, config.learning_rate)
        self._critic_updates = torch.zeros((), dtype=torch.int64)
        self._noise = torch.Generator().manual_seed(derive_seed(seed, "agent", "update"))
        self._generators = {"update": self._noise} | policy.generators()

    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return an action (A,) in [-1, 1] of a sampled chunk, by the averaged policy unless ``explore``."""
        return self._policy.act(observation, explore=explore)

    @torch.no_grad()
    def pretrain(self, batch: Batch) -> Metrics:
        """Take one step of cloning; return ``flow_loss``, and what the extraction of the policy measures without Q.

        Raises:
            DivergenceError: if a loss is not finite.
        """
        metrics = self._clone(batch, climbs=False)
        self._require_finite(metrics, int(self._updates))
        # At first the average is that of all steps so far.
        track(self._averaged, self._parameters, max(self.config.tau, 1 / int(self._updates)))
        return metrics

    @property
    def offline_steps(self) -> int:
        """Steps of :meth:`pretrain_critics` that the configuration asks for."""
        return self.config.offline_steps

    def pretrain_critics(self, batch: Batch) -> Metrics:
        """Take one step of :meth:`update`, on one minibatch of demonstrations.

        Raises:
            DivergenceError: as of :meth:`update`.
        """
        return self._learn(batch)

    def update(self, batch: Batch) -> Metrics:
        """Take a step of all networks on each minibatch; return what the last measured before it.

        These are ``critic_loss``, the squared error of values; ``q_mean`` and ``q_abs_max``, their mean and largest
        magnitude; ``target_mean``; ``flow_loss``, the mean squared error of velocities; and what :meth:`_extract`
        returns.

        Raises:
            DivergenceError: if something is not finite, or a value estimate exceeds ``config.q_limit``.
        """
        metrics: Metrics = {}
        for first in range(0, self.update_rows, self.config.batch_size):
            rows = slice(first, first + self.config.batch_size)
            metrics = self._learn({key: value[rows] for key, value in batch.items()})
        return metrics

    @torch.no_grad()
    def _learn(self, batch: Batch) -> Metrics:
        config, rows = self.config, self._rows(batch)
        target = self._target(rows)

        def critic_loss(critic: Parameters) -> tuple[Tensor, Tensor]:
            values = critic_values(critic, "critic", rows.observation, rows.action, config.activation)
            return (values - target).square().mean(1).sum(), values

        self._critic_updates += 1
        optimiser, step = self._optimiser, int(self._critic_updates)
        gradients, (total, values) = torch.func.grad_and_value(critic_loss, has_aux=True)(optimiser.network("critic"))
        optimiser.move(gradients, step)
        metrics = {
            "critic_loss": float(total) / config.ensemble_size,
            "q_mean": float(values.mean()),
            "q_abs_max": float(values.abs().amax()),
            "target_mean": float(target.mean()),
        } | self._clone(batch, climbs=True)
        track(self._averaged, self._parameters, config.tau)
        check_convergence(metrics, self._parameters, config.q_limit, f"update {step}")
        return metrics

    def _target(self, rows: Rows) -> Tensor:
        """Return what the critics should say (B,) of the rows' chunks."""
        config = self.config
        chunk = self._policy.chunks(self._parameters, rows.next_observation, self._noise)
        values = critic_values(self._averaged, "critic", rows.next_observation, chunk, config.activation)
        return rows.reward + rows.discount * (values.mean(0) if config.target_q == "mean" else values.amin(0))

    def _clone(self, batch: Batch, *, climbs: bool) -> Metrics:
        """Take a step of the flow and of the extraction; return ``flow_loss`` and what :meth:`_extract` returns."""
        observation = torch.from_numpy(self._policy.observations.rows(batch))
        # Executed chunks of others than demonstrators: where a safety filter changed an action, the critics know
        # the value of the changed one.
        demonstrated = batch["demonstration"][:, np.newaxis] > 0
        chunk = torch.from_numpy(np.where(demonstrated, batch["proposed_action"], batch["action"]))
        self._updates += 1
        step, activation = int(self._updates), self.config.activation
        error = descend_flow(self._optimiser, observation, chunk, self._noise, activation, step)
        return {"flow_loss": float(error)} | self._extract(observation, climbs=climbs)

    def _extract(self, observation: Tensor, *, climbs: bool) -> Metrics:
        """Take a step of the policy, where it has networks of its own, on rows of observations (B, O).

        Args:
            observation: (B, O).
            climbs: whether the critics count.
        """
        return {}

    def _slots(self) -> dict[str, Tensor]:
        critics = {name: self._averaged[name] for name in self._networks if name in self._averaged}
        return (
            self._policy.slots()
            | self._policy.plan_slots()
            | self._networks
            | prefixed("averaged", critics)
            | self._optimiser.slots()
            | {"updates": self._updates, "critic_updates": self._critic_updates}
        )

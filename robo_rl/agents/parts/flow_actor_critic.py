"""The base class of agents with critics of action chunks and a flow that learns the chunks in the data."""

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
    """Return new parameters ``critic/...`` for rows (inputs,) of an observation followed by a chunk."""
    return initialise_network(
        "critic",
        (inputs, *config.hidden, 1),
        generator,
        layer_norm=config.layer_norm,
        output_gain=1.0,
        ensemble=config.ensemble_size,
    )


def aggregate(values: Tensor, statistic: str) -> Tensor:
    """Return the ``mean`` or the ``min`` (B,) over an ensemble's values (E, B)."""
    return values.mean(0) if statistic == "mean" else values.amin(0)


class FlowActorCritic(OfflineAgent):
    """An agent that learns values of chunks and the distribution of chunks in the data, and a policy from both.

    An update takes a step of the critics towards the h-step return plus the discounted value of the policy's next
    chunk, then a step of the flow. The flow learns by cloning alone, from rows to imitate: demonstrations that did not
    fail, interventions, and own successes. It learns the proposed chunk of rows drawn as demonstrations, the executed
    chunk of all others. The critics learn of executed chunks, from all rows. The policy is defined by subclasses: see
    :meth:`_extract` and :class:`.SampledPolicy`.

    The algorithms are those of Q-chunking (Li et al. 2025) and FQL (Park et al. 2025), except that

    - the running average of the policy acts in evaluations, as in the other agents here; the papers evaluate the newest
      parameters;
    - chunks that an episode's end cuts short count, with a shorter return and the last action repeated, see
      :meth:`.RingRows.gather`; in Q-chunking their critic loss and their missing actions have a weight of zero;
    - a share of each minibatch comes from the demonstrations (``demonstration_ratio``), as in RLPD, so that few
      demonstrations are not outnumbered; the papers draw uniformly from all data;
    - the flow learns only rows to imitate, if a minibatch has any; the papers clone all data, failures included;
    - the critics of Q-chunking choose only after ``QCConfig.selection_starts`` steps, and until then one chunk is
      sampled; in the paper they choose from the first step on;
    - the flow is cloned before the critics learn (``pretrain_steps``), since a step of cloning is much cheaper; the
      papers train both from the first step on;
    - the networks are updated in turn instead of by one joint step, LayerNorm precedes the activation, initial weights
      are orthogonal, and the time of the flow is embedded, as in the other networks of the project.

    Args:
        config: configuration of the agent.
        policy: policy of the subclass.
        networks: parameters ``flow/...`` and ``critic/...`` that are not part of the policy.
        seed: seed of the run.
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
        """Return an action (A,) in [-1, 1] of a sampled chunk, from the averaged policy unless ``explore``."""
        return self._policy.act(observation, explore=explore)

    @torch.no_grad()
    def pretrain(self, batch: Batch) -> Metrics:
        """Take one step of cloning; return ``flow_loss`` and the metrics of :meth:`_extract` without critics.

        Raises:
            DivergenceError: if a loss is not finite.
        """
        metrics = self._clone(batch, use_critics=False)
        self._require_finite(metrics, int(self._updates))
        # At first the average is over all steps so far.
        track(self._averaged, self._parameters, max(self.config.tau, 1 / int(self._updates)))
        return metrics

    @property
    def offline_steps(self) -> int:
        """Number of steps of :meth:`pretrain_critics`, from the configuration."""
        return self.config.offline_steps

    def pretrain_critics(self, batch: Batch) -> Metrics:
        """Take one step of :meth:`update`, on one minibatch of demonstrations.

        Raises:
            DivergenceError: see :meth:`update`.
        """
        return self._learn(batch)

    def update(self, batch: Batch) -> Metrics:
        """Take a step of all networks on each minibatch; return the metrics of the last one.

        These are ``critic_loss``, the mean squared error of values; ``q_mean`` and ``q_abs_max``, their mean and
        largest magnitude; ``target_mean``; ``flow_loss``, the mean squared error of velocities; and the metrics of
        :meth:`_extract`. Each is computed before the step of its network.

        Raises:
            DivergenceError: if a value is not finite, or a value estimate exceeds ``config.q_limit``.
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
        } | self._clone(batch, use_critics=True)
        track(self._averaged, self._parameters, config.tau)
        check_convergence(metrics, self._parameters, config.q_limit, f"update {step}")
        return metrics

    def _target(self, rows: Rows) -> Tensor:
        """Return the targets (B,) of the critics."""
        config = self.config
        chunk = self._policy.chunks(self._parameters, rows.next_observation, self._noise)
        values = critic_values(self._averaged, "critic", rows.next_observation, chunk, config.activation)
        return rows.reward + rows.discount * aggregate(values, config.target_q)

    def _clone(self, batch: Batch, *, use_critics: bool) -> Metrics:
        """Take a step of the flow and of the policy; return ``flow_loss`` and the metrics of :meth:`_extract`."""
        observation, chunk = torch.from_numpy(self._policy.observations.rows(batch)), self._cloned(batch)
        self._updates += 1
        step, activation = int(self._updates), self.config.activation
        weight = self._imitation_weights(batch)
        error = descend_flow(self._optimiser, observation, chunk, self._noise, activation, step, weight)
        return {"flow_loss": float(error)} | self._extract(observation, use_critics=use_critics)

    def _cloned(self, batch: Batch) -> Tensor:
        """Return the chunks (B, A) that the flow learns.

        Except for demonstrators these are the executed chunks: if a safety filter changed an action, the critics know
        the value of the changed one.
        """
        demonstrated = batch["demonstration"][:, np.newaxis] > 0
        return torch.from_numpy(np.where(demonstrated, batch["proposed_action"], batch["action"]))

    @staticmethod
    def _imitation_weights(batch: Batch) -> Tensor:
        """Return the weight (B,), with a mean of 1, with which the flow learns each row.

        If the batch has nothing to imitate, such as before the first success without demonstrations, all rows weigh 1.
        """
        weight = torch.from_numpy(batch["demonstration"] + batch["online_example"])
        mean = weight.mean()
        return weight / mean if mean > 0 else torch.ones_like(weight)

    def _extract(self, observation: Tensor, *, use_critics: bool) -> Metrics:
        """Take a step of the policy, if it has networks of its own; return its metrics.

        Args:
            observation: rows (B, O).
            use_critics: whether the policy also learns from the critics, or from the flow only.
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

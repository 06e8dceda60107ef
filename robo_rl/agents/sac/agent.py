"""The agent of soft actor-critic and RLPD."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import (
    Agent,
    Batch,
    EnvSpec,
    Metrics,
    Observation,
    State,
    derive_seed,
    require,
)

from ..parts.cloning import BehaviourCloning
from ..parts.convergence import check_convergence
from ..parts.implementation import explained
from ..parts.networks import critic_values
from ..parts.policy import TanhGaussianPolicy
from ..parts.policy_agent import PolicyAgent
from ..parts.reference import FadingReference, ReferenceRows
from .config import SACConfig
from .critics import initial_networks, train_state
from .exploration import CloningError
from .implementation import computable, make_update
from .ranks import RankedUpdate
from .update import ACTOR_METRICS, METRICS, Minibatches, draw_noise


class SAC(PolicyAgent):
    """Soft actor-critic with an ensemble of critics; see :class:`SACConfig`.

    Attributes:
        config: the configuration.
        update_rows: rows of the Batch for ``update``: U consecutive minibatches of B rows, so the share of
            demonstrations must hold within each minibatch.
        metrics: names of the values that ``update`` returns.
    """

    metrics: ClassVar[tuple[str, ...]] = METRICS
    _policy: TanhGaussianPolicy

    def __init__(self, config: SACConfig, spec: EnvSpec, seed: int) -> None:
        self.config = config
        super().__init__(self._make_policy(spec, seed), config.update_to_data * config.batch_size)
        self._computed = computable(config, self._policy.device)
        source = torch.Generator().manual_seed(derive_seed(seed, "agent", "critic"))
        networks = initial_networks(config, self._critic_inputs() + self._policy.action_size, source)
        self._parameters = {name: x.to(self._policy.device) for name, x in networks.items()} | self._policy.parameters
        self._state = train_state(self._parameters)
        self._noise = torch.Generator().manual_seed(derive_seed(seed, "agent", "update"))
        self._generators = {"update": self._noise} | self._policy.generators()
        self._cloning = BehaviourCloning(self._policy, config.actor_learning_rate, config.implementation)
        self._error = CloningError(self._policy)
        self._reference = FadingReference(config, self._policy)
        self._target_entropy = torch.tensor(-0.5 * self._policy.action_size)
        self._ranked: RankedUpdate | None = None
        self._update, description = self._make_update()
        self.implementation = explained(description, config.precision, self._computed.precision)

    def _make_policy(self, spec: EnvSpec, seed: int) -> TanhGaussianPolicy:
        return TanhGaussianPolicy(self.config, spec, seed)

    def _critic_inputs(self) -> int:
        """Return the width of the critics' input without the action."""
        return self._policy.input_size

    def _make_update(self) -> tuple[Callable[[Batch, int, ReferenceRows | None], Tensor], str]:
        """Return the update function and :attr:`implementation`.

        The function takes a Batch, the number of earlier updates and the reference policy for the last minibatch, does
        one whole update, and returns the values of :attr:`metrics`.
        """
        config = self._computed
        compute, implementation = make_update(config, self._state)
        self._ranked = compute if isinstance(compute, RankedUpdate) else None

        def update(batch: Batch, updates: int, reference: ReferenceRows | None) -> Tensor:
            noise = draw_noise(config, self._policy.action_size, self._noise)
            return compute(self._minibatches(batch), noise, updates, reference)

        return update, implementation

    @torch.inference_mode()
    def value(self, observation: Observation, action: NDArray[np.float32]) -> float:
        """Return the mean of the critics' values of ``action`` (A,).

        Raises:
            ConfigError: with action chunks, since the critics then estimate values of whole chunks only.
        """
        config = self.config
        chunk = config.action_chunk
        require(chunk == 1, "agent.action_chunk", "1 where values of single actions are required", chunk)
        row = self._critic_row(observation)
        rows = torch.from_numpy(action).unsqueeze(0).to(row.device)
        return float(critic_values(self._parameters, "critic", row, rows, config.activation).mean())

    def _critic_row(self, observation: Observation) -> Tensor:
        """Return the critics' input for one observation (1, _critic_inputs())."""
        return self._policy.row(self._policy.parameters, observation)

    @property
    def _has_learned(self) -> bool:
        return bool(self._updates or self._cloning.steps)

    def pretrain(self, batch: Batch) -> Metrics:
        """Take one step of behaviour cloning of the actor; return ``bc_loss``.

        With ``exploration=demonstrations``, the last of ``pretrain_steps`` sets the policy's deviation.

        Raises:
            DivergenceError: if the loss is not finite.
        """
        metrics = self._cloning.step(batch)
        remaining = self.config.pretrain_steps - self._cloning.steps
        if self.config.exploration == "demonstrations" and 0 <= remaining < CloningError.STEPS:
            self._error.add(batch)
            if remaining == 0:
                self._aim_at(self._error.explore())
        return metrics

    def _aim_at(self, entropy: Tensor) -> None:
        """Make ``entropy`` () [nat] the target, unless the configuration states another one."""
        if self.config.exploration == "demonstrations" and self.config.target_entropy is None:
            self._target_entropy.copy_(entropy)
            self._computed = dataclasses.replace(self._computed, target_entropy=float(entropy))
            self._update, _ = self._make_update()

    def start_from(self, other: Agent, *, critics: bool) -> tuple[str, ...]:
        """Do the same as :meth:`PolicyAgent.start_from`; the target entropy of ``exploration=demonstrations`` follows.

        Raises:
            ConfigError: as there.
        """
        parts = super().start_from(other, critics=critics)
        if isinstance(other, SAC) and other.config.exploration == "demonstrations":
            self._aim_at(other._target_entropy)
        return parts

    def update(self, batch: Batch) -> Metrics:
        """Do U critic updates and one update of actor and temperature; return the :attr:`metrics`.

        The first ``config.actor_delay`` updates leave actor, average and temperature as they are, and return the
        metrics of the critics alone. With ``config.reference_weight`` above 0, ``reference_kl`` is added: the policy's
        divergence from its reference before the update [nat], mean over the rows.

        Raises:
            DivergenceError: if a value is not finite, or a value estimate exceeds ``config.q_limit``. The parameters
                may then be corrupt: restore a checkpoint.
        """
        updates = int(self._updates)
        reference: ReferenceRows | None = None
        measured: dict[str, float] = {}
        if self._reference.is_used:
            if updates == 0:
                self._reference.begin()
            last = {key: rows[-self.config.batch_size :] for key, rows in batch.items()}
            reference, kl = self._reference.rows(self._policy.distribution(last), updates)
            measured = {"reference_kl": kl}
        result = self._update(batch, updates, reference)
        metrics = dict(zip(self.metrics, result.tolist(), strict=True)) | measured
        if updates < self.config.actor_delay:
            metrics = {name: value for name, value in metrics.items() if name not in ACTOR_METRICS}
        else:
            self._policy.average(self.config.actor_tau)
        self._updates += 1
        check_convergence(metrics, self._policy.parameters, self.config.q_limit, f"update {updates + 1}")
        return metrics

    def follow(self) -> None:
        """Compute this process's share of rank 0's updates, until rank 0 ends; see :mod:`.ranks`.

        Raises:
            RankError: if another process is gone or holds different parameters.
            RuntimeError: if this process is not one of several ranks.
        """
        if self._ranked is None:
            raise RuntimeError("this process is not one of several ranks; start them with torchrun")
        self._ranked.follow()

    def _minibatches(self, batch: Batch) -> Minibatches:
        lead = (self.config.update_to_data, self.config.batch_size)

        def shaped(rows: NDArray[np.float32]) -> Tensor:
            return torch.from_numpy(rows).view(*lead, *rows.shape[1:])

        observations = self._policy.observations
        return Minibatches(
            observation=shaped(observations.rows(batch)),
            action=shaped(batch["action"]),
            reward=shaped(batch["reward"]),
            discount=shaped(batch["discount"]),
            next_observation=shaped(observations.rows(batch, "next_observation")),
            cloning=shaped(batch["demonstration"]) * self.config.cloning_weight_after(int(self._updates))
            + shaped(batch["online_example"]) * self.config.online_cloning_weight,
            proposed_action=shaped(batch["proposed_action"]),
        )

    def _slots(self) -> dict[str, Tensor]:
        return (
            self._parameters
            | self._policy.slots()
            | self._policy.plan_slots()
            | self._state.moments()
            | self._cloning.slots()
            | self._reference.slots()
            | {"updates": self._updates}
            | ({"target_entropy": self._target_entropy} if self.config.exploration == "demonstrations" else {})
        )

    def load(self, state: State) -> None:
        """Continue from ``state`` bit for bit.

        Raises:
            CheckpointError: naming the first name or shape that does not match this agent.
        """
        super().load(state)
        self._aim_at(self._target_entropy)
        if self._ranked is not None:
            self._ranked.is_spread = False


def make_sac(*, spec: EnvSpec, seed: int, **fields: Any) -> SAC:
    """Make the agent from the fields of :class:`SACConfig`."""
    return SAC(SACConfig(**fields), spec, seed)

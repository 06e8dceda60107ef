"""The agent: soft actor-critic and RLPD."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import (
    Batch,
    DivergenceError,
    EnvSpec,
    FeatureExtractor,
    Metrics,
    Observation,
    State,
    derive_seed,
    require,
)

from ..parts.cloning import BehaviourCloning
from ..parts.networks import Parameters, critic_values, initialise_network
from ..parts.policy import TanhGaussianPolicy
from ..parts.slots import load_generators, load_slots, prefixed, save_generators, save_slots
from .backend import computable, make_update
from .config import SACConfig
from .critic_pretraining import make_critic_pretraining
from .ranks import RankedUpdate
from .update import METRICS, Minibatches, draw_noise


class SAC:
    """Soft actor-critic with an ensemble of critics; see :class:`SACConfig`.

    Attributes:
        config: as given.
        update_rows: rows of the Batch for ``update``: U minibatches of B rows, one after the other, so a share of
            demonstrations must hold within each run of B rows.
        backend: which implementation computes updates, and why.
        features: what Batches must have in the place of images; None: the images themselves, or nothing.
        metrics: names of what ``update`` returns.

    Args:
        config: of the agent.
        spec: of the environment.
        seed: of the run; the agent derives its own streams.

    Raises:
        ConfigError: if the configuration does not fit the spec.
    """

    metrics: ClassVar[tuple[str, ...]] = METRICS

    def __init__(self, config: SACConfig, spec: EnvSpec, seed: int) -> None:
        self.config = config
        self.update_rows = config.update_to_data * config.batch_size
        self._policy = self._make_policy(spec, seed)
        self._computed = computable(config, self._policy.device)
        self.features: FeatureExtractor | None = None
        self._parameters = self._initialise(seed)
        trained = {k: v for k, v in self._parameters.items() if not k.startswith("target_critic/")}
        self._first = {name: torch.zeros_like(tensor) for name, tensor in trained.items()}
        self._second = {name: torch.zeros_like(tensor) for name, tensor in trained.items()}
        self._updates = torch.zeros((), dtype=torch.int64)
        self._noise = torch.Generator().manual_seed(derive_seed(seed, "agent", "update"))
        self._generators = {"update": self._noise, "exploration": self._policy.exploration}
        self._cloning = BehaviourCloning(self._policy, config.actor_learning_rate, config.backend)
        self._critic_pretraining = make_critic_pretraining(self._computed, self._parameters, self._noise)
        self._ranked: RankedUpdate | None = None
        self._update, self.backend = self._make_update()
        if self._computed.precision != config.precision:
            self.backend += ", in float32: this processor has no products of bfloat16 (AVX512_BF16)"

    def _make_policy(self, spec: EnvSpec, seed: int) -> TanhGaussianPolicy:
        return TanhGaussianPolicy(self.config, spec, seed)

    def _critic_inputs(self) -> int:
        """Return the width of what the critics see beside the action."""
        return self._policy.input_size

    def _make_update(self) -> tuple[Callable[[Batch, int], Tensor], str]:
        """Return a function of a Batch and the number of updates before, and :attr:`backend`.

        The function does one whole update and returns the values of :attr:`metrics`.
        """
        config = self._computed
        compute, backend = make_update(config, self._parameters, self._first, self._second)
        self._ranked = compute if isinstance(compute, RankedUpdate) else None

        def update(batch: Batch, updates: int) -> Tensor:
            noise = draw_noise(config, self._policy.action_size, self._noise)
            return compute(self._minibatches(batch), noise, updates)

        return update, backend

    def _initialise(self, seed: int) -> Parameters:
        config, policy = self.config, self._policy
        critic = self._initial_critics(torch.Generator().manual_seed(derive_seed(seed, "agent", "critic")))
        target = {f"target_{name}": tensor.clone() for name, tensor in critic.items()}
        temperature = {"temperature/log_alpha": torch.tensor(math.log(config.initial_temperature))}
        rest = {name: tensor.to(policy.device) for name, tensor in (critic | target | temperature).items()}
        return rest | policy.parameters

    def _initial_critics(self, generator: torch.Generator) -> Parameters:
        """Return new parameters ``critic/...``, as before anything is learned."""
        config = self.config
        return initialise_network(
            "critic",
            (self._critic_inputs() + self._policy.action_size, *config.hidden, config.value_bins or 1),
            generator,
            layer_norm=config.layer_norm,
            output_gain=1.0,
            ensemble=config.ensemble_size,
            network=config.network,
        )

    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return an action (A,) in [-1, 1]; the mode of the averaged policy unless ``explore``."""
        return self._policy.act(observation, explore=explore)

    def forget_plan(self, *, explore: bool) -> None:
        """Forget what is left of a chunk of actions: see :class:`~robo_rl.core.Policy`."""
        self._policy.forget_plan(explore=explore)

    @torch.inference_mode()
    def value(self, observation: Observation, action: NDArray[np.float32]) -> float:
        """Return the mean of the critics' values of ``action`` (A,).

        Raises:
            ConfigError: with action chunks, since the critics judge no single action then.
        """
        config = self.config
        chunk = config.action_chunk
        require(chunk == 1, "agent.action_chunk", "1 where values of single actions are asked for", chunk)
        row = self._critic_row(observation)
        rows = torch.from_numpy(action).unsqueeze(0).to(row.device)
        values = critic_values(self._parameters, "critic", row, rows, config.activation, value_range=config.value_range)
        return float(values.mean())

    def _critic_row(self, observation: Observation) -> Tensor:
        """Return what the critics see of one observation (1, _critic_inputs())."""
        return self._policy.row(self._policy.parameters, observation)

    @property
    def observed(self) -> tuple[str, ...]:
        """Observation keys that it learns from."""
        return self._policy.observations.keys

    def fit_normaliser(self, batch: Batch) -> None:
        """Fix the normalisation of observations from a batch of demonstrations, before anything is learned.

        Raises:
            RuntimeError: if the agent has learned already.
        """
        if self._updates or self._cloning.steps or (self._critic_pretraining and self._critic_pretraining.steps):
            raise RuntimeError("the normalisation cannot change once the agent has learned")
        self._policy.observations.fit(batch)

    def pretrain(self, batch: Batch) -> Metrics:
        """Take one step of behaviour cloning of the actor; return ``bc_loss``.

        Raises:
            DivergenceError: if the loss is not finite.
        """
        return self._cloning.step(batch)

    @property
    def offline_steps(self) -> int:
        """Steps of :meth:`pretrain_critics` that the configuration asks for."""
        return self.config.offline_steps if self._critic_pretraining else 0

    def pretrain_critics(self, batch: Batch) -> Metrics:
        """Take one step of offline reinforcement learning, as ``config.pretrain_critics`` says.

        Return the :attr:`metrics` that there are, and of ``cal_ql`` ``conservative_gap``, how far other actions are
        above the demonstrated ones; of ``iql`` ``value_loss`` and ``value_mean``, of V.

        Args:
            batch: B demonstrations, with ``return_to_go`` (B,) float32, a lower bound of the return from there on.

        Raises:
            DivergenceError: as of :meth:`update`.
            RuntimeError: if the configuration asks for none.
        """
        if self._critic_pretraining is None:
            raise RuntimeError("agent.pretrain_critics is none: there is nothing to do before the first step")
        device = self._policy.device
        rows = Minibatches(*(field[0].to(device) for field in self._minibatches(batch, 1)))
        metrics = self._critic_pretraining.step(rows, torch.from_numpy(batch["return_to_go"]).to(device))
        self._policy.average(self.config.actor_tau)
        self._check(metrics, f"offline step {self._critic_pretraining.steps}")
        return metrics

    def update(self, batch: Batch) -> Metrics:
        """Do U critic updates and one of actor and temperature; return the :attr:`metrics`.

        Raises:
            DivergenceError: if something is not finite, or a value estimate exceeds ``config.q_limit``. The
                parameters may be spoiled then: go back to a checkpoint.
        """
        updates = int(self._updates)
        result = self._update(batch, updates)
        self._policy.average(self.config.actor_tau)
        self._updates += 1
        metrics = dict(zip(self.metrics, result.tolist(), strict=True))
        self._check(metrics, f"update {updates + 1}")
        return metrics

    def follow(self) -> None:
        """Compute this process's share of the updates that rank 0 does, until it ends; see :mod:`.ranks`.

        Raises:
            RankError: if another process is gone, or holds other parameters.
            RuntimeError: if this process is none of several.
        """
        if self._ranked is None:
            raise RuntimeError("this process is none of several: torchrun starts such")
        self._ranked.follow()

    def _minibatches(self, batch: Batch, updates: int | None = None) -> Minibatches:
        lead = (updates or self.config.update_to_data, self.config.batch_size)

        def shaped(rows: NDArray[np.float32]) -> Tensor:
            return torch.from_numpy(rows).view(*lead, *rows.shape[1:])

        observations = self._policy.observations
        return Minibatches(
            observation=shaped(observations.rows(batch)),
            action=shaped(batch["action"]),
            reward=shaped(batch["reward"]),
            discount=shaped(batch["discount"]),
            next_observation=shaped(observations.rows(batch, "next_observation")),
            cloning=shaped(batch["demonstration"]) * self._cloning_weight(),
            proposed_action=shaped(batch["proposed_action"]),
        )

    def _cloning_weight(self) -> float:
        first, last = self.config.cloning_weight, self.config.final_cloning_weight
        return last + (first - last) * math.exp2(-int(self._updates) / self.config.cloning_half_life)

    def _check(self, metrics: Metrics, step: str) -> None:
        advice = "Lower the learning rates or agent.update_to_data, or look at the rewards."
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise DivergenceError(f"training diverged: {name} is {value} at {step}. {advice}")
        if metrics["q_abs_max"] > self.config.q_limit:
            raise DivergenceError(
                f"training diverged: a value estimate has magnitude {metrics['q_abs_max']:.4g} at {step}, "
                f"agent.q_limit is {self.config.q_limit:g}. {advice} If returns are that large, raise agent.q_limit."
            )
        # The metrics of an update come before its last step; only the networks of that step remain to be seen.
        parameters = self._policy.parameters
        largest = torch._foreach_norm(list(parameters.values()), math.inf)  # one kernel on a GPU
        finite = torch.stack(largest).isfinite()
        for name, good in zip(parameters, finite.tolist(), strict=True):
            if not good:
                raise DivergenceError(f"training diverged: {name} is not finite after {step}. {advice}")

    def _slots(self) -> dict[str, Tensor]:
        return (
            self._parameters
            | self._policy.slots()
            | self._policy.plan_slots()
            | prefixed("adam_first", self._first)
            | prefixed("adam_second", self._second)
            | self._cloning.slots()
            | (self._critic_pretraining.slots() if self._critic_pretraining else {})
            | {"updates": self._updates}
        )

    def state(self) -> State:
        """Return parameters, optimisers, counters and random generators."""
        return save_slots(self._slots()) | save_generators(self._generators)

    def load(self, state: State) -> None:
        """Go on from ``state`` bit for bit.

        Raises:
            CheckpointError: naming the first name or shape that is not this agent's.
        """
        rest = {name: array for name, array in state.items() if not name.startswith("generator/")}
        load_slots(self._slots(), rest, "the agent")
        load_generators(self._generators, state, "the agent")
        if self._ranked is not None:
            self._ranked.is_spread = False

    def policy_state(self) -> State:
        """Return what ``act`` alone needs."""
        return self._policy.state()

    def load_policy(self, state: State) -> None:
        """Take over a ``policy_state``.

        Raises:
            CheckpointError: naming the first name or shape that is not this policy's.
        """
        self._policy.load(state)


def make_sac(*, spec: EnvSpec, seed: int, **fields: Any) -> SAC:
    """Make the agent from the fields of :class:`SACConfig`."""
    return SAC(SACConfig(**fields), spec, seed)

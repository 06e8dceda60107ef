"""The agent of XQC, CrossQ and SimbaV2."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, EnvSpec, Metrics, Observation, derive_seed

from ..parts.adam import TrainState
from ..parts.convergence import check_convergence
from ..parts.networks import Parameters
from ..parts.offline_agent import Rows
from ..parts.policy_agent import PolicyAgent
from ..parts.reference import FadingReference, ReferenceRows
from .categorical import output_values
from .config import XQCConfig
from .networks import actor_distribution, apply_network, initialise_network
from .policy import NormalisedPolicy
from .return_scaling import ReturnStatistics
from .update import ACTOR_METRICS, CRITIC_METRICS, XQCUpdate, schedule


class XQC(PolicyAgent):
    """Soft actor-critic with normalised networks; see :class:`XQCConfig`.

    The algorithms are those of their authors, except that

    - rewards are scaled as in SimbaV2 in XQC too, see :mod:`.return_scaling`;
    - one learning rate, that of the newest critic update, holds for all networks; in XQC, that of the actor falls with
      the number of its own steps;
    - the logarithm of the deviation is limited to [-20, 2] in XQC too, which has [-10, 2];
    - the bins tile [-5, 5], whose ends are the centres of the outer bins in XQC and SimbaV2;
    - in CrossQ, batch renormalisation, which its authors switch on after 100,000 updates, is left out;
    - in SimbaV2, the statistics of the observations are those of the batches, not of the steps as they come, and the
      minimum over the critics is used in tasks without termination too.

    Attributes:
        config: the configuration.
        update_rows: rows of the Batch for ``update``: U consecutive minibatches of B rows.
    """

    _policy: NormalisedPolicy

    def __init__(self, config: XQCConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(NormalisedPolicy(config, spec, seed), config.update_to_data * config.batch_size)
        self.config = config
        policy = self._policy
        source = torch.Generator().manual_seed(derive_seed(seed, "agent", "critic"))
        critics = initialise_network(
            config.network,
            "critic",
            (policy.input_size, policy.action_size),
            config.critic_hidden,
            (config.value_bins or 1,),
            source,
            config.ensemble_size,
        )
        if config.tau < 1:
            critics |= {f"target_{name}": x.clone() for name, x in critics.items() if name.startswith("critic/")}
        critics["temperature/log_alpha"] = torch.tensor(math.log(config.initial_temperature))
        self._parameters = {name: x.to(policy.device) for name, x in critics.items()} | policy.parameters
        self._returns = ReturnStatistics()
        self._reference = FadingReference(config, policy)
        trained = ("actor/", "critic/", "temperature/")
        self._state = TrainState.of(self._parameters, lambda name: name.startswith(trained))
        self._steps = XQCUpdate(config, self._state)
        self._noise = torch.Generator().manual_seed(derive_seed(seed, "agent", "update"))
        self._generators = {"update": self._noise, "exploration": policy.exploration}
        name = "torch.compile" if config.implementation == "compile" else "torch"
        on_gpu = policy.device.type == "cuda"
        self.implementation = f"{name}, CUDA graphs on {torch.cuda.get_device_name(policy.device)}" if on_gpu else name

    @torch.inference_mode()
    def value(self, observation: Observation, action: NDArray[np.float32]) -> float:
        """Return the mean of the critics' values of ``action`` (A,), in units of the reward."""
        config, parameters = self.config, self._parameters
        row = self._policy.row(parameters, observation)
        row = torch.cat((row, torch.from_numpy(action).unsqueeze(0).to(row.device)), dim=-1)
        values = output_values(apply_network(config.network, parameters, "critic", row), config.value_range).mean()
        return float(values) * self._reward_scale

    @property
    def _reward_scale(self) -> float:
        """Divisor of the rewards; 1 for critics without bins."""
        value_range = self.config.value_range
        return 1.0 if value_range is None else self._returns.scale(value_range[1])

    def note_returns(self, returns: Sequence[float]) -> None:
        """Record the discounted sums (n,) of rewards after the newest n steps; see :mod:`.return_scaling`."""
        self._returns.note(returns)

    def pretrain(self, batch: Batch) -> Metrics:
        """Do nothing: this agent does not learn before its first step."""
        return {}

    def update(self, batch: Batch) -> Metrics:
        """Do U critic updates, and an update of actor and temperature after every ``policy_delay``-th of them.

        The first ``actor_delay`` calls leave actor and temperature as they are.

        Return ``CRITIC_METRICS``, means over the critic updates (``q_abs_max``: the largest), the learning rate, and
        ``ACTOR_METRICS`` of the last actor update, if there was one; see :mod:`.update`. With
        ``config.reference_weight`` above 0, ``reference_kl`` is added: the policy's divergence from its reference
        before that actor update [nat], mean over the rows.

        Raises:
            DivergenceError: if a value is not finite, or a value estimate exceeds ``config.q_limit``. The parameters
                may then be corrupt: restore a checkpoint.
        """
        config, critic_rows, actor_row = self.config, [], None
        measured: dict[str, float] = {}
        if not self._updates:
            self._reference.begin()
        done, scale = int(self._updates) * config.update_to_data, self._reward_scale
        for u in range(config.update_to_data):
            rows = self._rows(batch, slice(u * config.batch_size, (u + 1) * config.batch_size))
            noise = torch.randn(rows.action.shape, generator=self._noise)
            now = schedule(config, done + u, done + u + 1, scale)
            critic_rows.append(self._steps.critic_step(rows, noise, now).clone())
            if (done + u + 1) % config.policy_delay == 0 and self._updates >= config.actor_delay:
                noise = torch.randn(rows.action.shape, generator=self._noise)
                delayed = config.actor_delay * config.update_to_data
                steps = (done + u + 1) // config.policy_delay - delayed // config.policy_delay
                reference: ReferenceRows | None = None
                if self._reference.is_used:
                    distribution = partial(self._distribution, rows.observation.to(self._policy.device))
                    reference, kl = self._reference.rows(distribution, int(self._updates))
                    measured = {"reference_kl": kl}
                now = schedule(config, done + u, steps)
                actor_row = self._steps.actor_step(rows.observation, noise, now, reference)
        self._updates += 1
        critic = torch.stack(critic_rows)
        metrics = dict(zip(CRITIC_METRICS, critic.mean(0).tolist(), strict=True))
        metrics |= {"q_abs_max": float(critic[:, 2].amax()), "learning_rate": config.learning_rate_after(done)}
        if actor_row is not None:
            metrics |= dict(zip(ACTOR_METRICS, actor_row.tolist(), strict=True)) | measured
        check_convergence(metrics, self._policy.parameters, config.q_limit, f"update {int(self._updates)}")
        return metrics

    def _distribution(self, observation: Tensor, parameters: Parameters) -> tuple[Tensor, Tensor]:
        """Return mean and log deviation (B, A) of a policy that acts, with its running statistics."""
        return actor_distribution(self.config.network, parameters, observation)

    def _rows(self, batch: Batch, rows: slice) -> Rows:
        """Return some rows of ``batch`` as tensors on the CPU."""
        selected = {key: value[rows] for key, value in batch.items()}
        observations = self._policy.observations
        action, reward, discount = (torch.from_numpy(selected[key]) for key in ("action", "reward", "discount"))
        following = torch.from_numpy(observations.rows(selected, "next_observation"))
        return Rows(torch.from_numpy(observations.rows(selected)), action, reward, discount, following)

    def _slots(self) -> dict[str, Tensor]:
        counts = {"updates": self._updates, "returns": self._returns.values}
        return self._parameters | self._policy.slots() | self._state.moments() | self._reference.slots() | counts


def make_xqc(*, spec: EnvSpec, seed: int, **fields: Any) -> XQC:
    """Make the agent from the fields of :class:`XQCConfig`."""
    return XQC(XQCConfig(**fields), spec, seed)

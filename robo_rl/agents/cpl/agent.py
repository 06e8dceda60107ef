"""The agent of contrastive preference learning (Hejna et al. 2024)."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from robo_rl.core import Batch, Comparisons, ConfigError, EnvSpec, Metrics, derive_seed, generator

from ..parts.adam import Adam
from ..parts.networks import Parameters, actor_mode
from ..parts.offline_agent import OfflineAgent
from ..parts.policy import TanhGaussianPolicy
from .config import CPLConfig


class ComparedPairs(NamedTuple):
    """Pairs as tensors: observations (n, 2, length, F), actions (n, 2, length, A), preferred segments (n,) 0 or 1."""

    observation: Tensor
    action: Tensor
    preferred: Tensor


class CPL(OfflineAgent):
    """An agent that learns which of two segments was preferred from the likelihoods of their actions under its policy.

    People prefer the segment with the smaller regret (Knox et al. 2022). For the best policy with entropy, the regret
    of an action is its negative log-likelihood, up to a factor. The agent therefore learns the policy directly, without
    a reward. With l_t = -|tanh(mean(s_t)) - a_t|^2, the log-likelihood of a Gaussian with fixed deviation, the
    advantage of a segment is A = temperature * sum_t gamma^t l_t, and the loss is the mean of
    -log sigmoid(A_preferred - conservative_weight * A_other). Before that, the actor clones the whole data set.
    """

    def __init__(self, config: CPLConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(TanhGaussianPolicy(config, spec, seed), config.batch_size)
        self.config = config
        self._seed = derive_seed(seed, "agent", "comparisons")
        self._compared: ComparedPairs | None = None
        self._optimiser = Adam(self._policy.parameters, config.learning_rate)

    def fit_comparisons(self, comparisons: Comparisons | None) -> None:
        """Set the compared pairs, after the normalisation is fixed and before learning begins.

        Raises:
            ConfigError: if there are no comparisons.
        """
        if comparisons is None or not len(comparisons.second):
            raise ConfigError(
                "agent=cpl learns from preferences between segments of the data set, and there are none: set "
                "reward=preferences reward.modules.preferences.demonstration_queries=1000"
            )
        action = torch.from_numpy(comparisons.segments["action"])
        lead = action.shape[:3]
        rows = {key: array.reshape(-1, *array.shape[3:]) for key, array in comparisons.segments.items()}
        observation = torch.from_numpy(self._policy.observations.rows(rows)).view(*lead, -1)
        self._compared = ComparedPairs(observation, action, torch.from_numpy(comparisons.second).long())

    @torch.no_grad()
    def update(self, batch: Batch) -> Metrics:
        """Take one step: of cloning, on ``batch``, for the first ``cloning_steps``, and on compared pairs after them.

        Return ``bc_loss``, the mean squared error before it, or ``cpl_loss`` and ``accuracy``, the share of pairs whose
        preferred segment is the more likely one.

        Raises:
            DivergenceError: if the loss is not finite.
        """
        steps = int(self._updates) - self.config.cloning_steps
        metrics = self._clone(batch) if steps < 0 else self._contrast(steps)
        self._require_finite(metrics, int(self._updates))
        self._policy.average(1.0)
        return metrics

    def _clone(self, batch: Batch) -> Metrics:
        observation = torch.from_numpy(self._policy.observations.rows(batch))
        action = torch.from_numpy(batch["action"])

        def loss(actor: Parameters) -> Tensor:
            return -self._likelihoods(actor, observation, action).mean() / self._policy.action_size

        self._updates += 1
        error = self._optimiser.descend("actor", loss, int(self._updates))
        return {"bc_loss": float(error)}

    def _contrast(self, step: int) -> Metrics:
        """Take step ``step`` (from 0) on pairs; the first one restarts the optimiser, since the loss is a new one."""
        if self._compared is None:
            raise RuntimeError("call fit_comparisons before learning from comparisons")
        if step == 0:
            self._optimiser.restart()
        config, n = self.config, len(self._compared.preferred)
        indices = torch.from_numpy(generator(self._seed, step).integers(0, n, config.pairs))
        observation, action, preferred = (tensor[indices] for tensor in self._compared)

        def loss(actor: Parameters) -> tuple[Tensor, Tensor]:
            advantage = config.temperature * discounted(self._likelihoods(actor, observation, action), config.gamma)
            better = advantage.gather(1, preferred[:, None])[:, 0]
            worse = advantage.gather(1, 1 - preferred[:, None])[:, 0]
            return softplus(config.conservative_weight * worse - better).mean(), better > worse

        gradients, (error, correct) = torch.func.grad_and_value(loss, has_aux=True)(self._policy.parameters)
        self._updates += 1
        self._optimiser.move(gradients, step + 1)
        return {"cpl_loss": float(error), "accuracy": float(correct.float().mean())}

    def _likelihoods(self, actor: Parameters, observation: Tensor, action: Tensor) -> Tensor:
        """Return the log-likelihoods (...,) of actions (..., A), up to a factor and a constant."""
        rows = observation.reshape(-1, observation.shape[-1])
        mode = actor_mode(actor, rows, self.config.activation)
        return -(mode.view_as(action) - action).square().sum(-1)

    def _slots(self) -> dict[str, Tensor]:
        return self._policy.slots() | self._optimiser.slots() | {"updates": self._updates}


def discounted(values: Tensor, gamma: float) -> Tensor:
    """Return the sums (...,) of values (..., length) with the weights 1, ``gamma``, ``gamma`` squared and so on."""
    return values @ gamma ** torch.arange(values.shape[-1], dtype=values.dtype)


def make_cpl(*, spec: EnvSpec, seed: int, **fields: Any) -> CPL:
    """Make the agent from the fields of :class:`CPLConfig`."""
    return CPL(CPLConfig(**fields), spec, seed)

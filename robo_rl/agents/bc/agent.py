"""The agent: behaviour cloning of a deterministic policy, from demonstrations or interventions."""

from typing import Any

import numpy as np
from torch import Tensor

from robo_rl.core import Batch, EnvSpec, Metrics

from ..parts.cloning import BehaviourCloning
from ..parts.offline_agent import OfflineAgent
from ..parts.policy import TanhGaussianPolicy
from .config import BCConfig


class BC(OfflineAgent):
    """Regression of actions on what others did; the actor of :class:`~robo_rl.agents.sac.SAC`.

    Attributes:
        config: as given.

    Args:
        config: of the agent.
        spec: of the environment.
        seed: of the run.

    Raises:
        ConfigError: if the configuration does not fit the spec.
    """

    def __init__(self, config: BCConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(TanhGaussianPolicy(config, spec, seed), config.update_to_data * config.batch_size)
        self.config = config
        self._cloning = BehaviourCloning(self._policy, config.learning_rate)
        self.implementation = self._cloning.implementation

    @property
    def _has_learned(self) -> bool:
        return self._cloning.steps > 0

    def update(self, batch: Batch) -> Metrics:
        """Take a step on each minibatch of demonstrations; return ``bc_loss``, the mean squared error before the last.

        While nobody has shown anything the rows are the policy's own, and nothing is learned or returned.

        Raises:
            DivergenceError: if the loss is not finite.
        """
        if self.config.learns_online:
            models = np.flatnonzero(batch["demonstration"])
            if not len(models):
                return {}
            if len(models) < len(batch["action"]):  # what failed is not imitated; others stand in for it
                batch = {key: value[np.resize(models, len(value))] for key, value in batch.items()}
        metrics: Metrics = {}
        for first in range(0, len(batch["action"]), self.config.batch_size):
            rows = slice(first, first + self.config.batch_size)
            metrics = self._cloning.step({key: value[rows] for key, value in batch.items()})
        return metrics

    def _slots(self) -> dict[str, Tensor]:
        return self._policy.slots() | self._policy.plan_slots() | self._cloning.slots()


def make_bc(*, spec: EnvSpec, seed: int, **fields: Any) -> BC:
    """Make the agent from the fields of :class:`BCConfig`."""
    return BC(BCConfig(**fields), spec, seed)

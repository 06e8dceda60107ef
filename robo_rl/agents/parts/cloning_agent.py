"""The base of agents that clone what others did."""

from abc import abstractmethod
from typing import Protocol

import numpy as np

from robo_rl.core import Batch, Metrics

from .offline_agent import OfflineAgent
from .policy import NetworkPolicy


class CloningConfig(Protocol):
    """The fields of an agent's configuration that cloning reads; see :class:`.BCConfig`."""

    @property
    def learns_online(self) -> bool: ...
    @property
    def update_to_data(self) -> int: ...
    @property
    def batch_size(self) -> int: ...


class CloningAgent(OfflineAgent):
    """Learns from demonstrations alone, or also from interventions while it acts. Subclasses clone a minibatch.

    Args:
        config: of the agent.
        policy: trained by the subclass.
    """

    def __init__(self, config: CloningConfig, policy: NetworkPolicy) -> None:
        super().__init__(policy, config.update_to_data * config.batch_size)
        self._learns_online, self._batch_size = config.learns_online, config.batch_size

    @abstractmethod
    def _clone(self, batch: Batch) -> Metrics:
        """Take one step on a minibatch of demonstrations.

        Raises:
            DivergenceError: if the loss is not finite.
        """

    def update(self, batch: Batch) -> Metrics:
        """Take a step on each minibatch of demonstrations; return the loss before the last.

        While nobody has shown anything the rows are the policy's own, and nothing is learned or returned.

        Raises:
            DivergenceError: if the loss is not finite.
        """
        if self._learns_online:
            models = np.flatnonzero(batch["demonstration"])
            if not len(models):
                return {}
            if len(models) < len(batch["action"]):  # what failed is not imitated; others stand in for it
                batch = {key: value[np.resize(models, len(value))] for key, value in batch.items()}
        metrics: Metrics = {}
        for first in range(0, len(batch["action"]), self._batch_size):
            rows = slice(first, first + self._batch_size)
            metrics = self._clone({key: value[rows] for key, value in batch.items()})
        return metrics

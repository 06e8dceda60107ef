"""The base class of agents that clone the actions of demonstrators."""

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
    """An agent that learns from demonstrations and, if it acts, from interventions. Subclasses clone a minibatch."""

    def __init__(self, config: CloningConfig, policy: NetworkPolicy) -> None:
        super().__init__(policy, config.update_to_data * config.batch_size)
        self._learns_online, self._batch_size = config.learns_online, config.batch_size

    @abstractmethod
    def _clone(self, batch: Batch) -> Metrics:
        """Take one step on a minibatch of demonstrations.

        Raises:
            DivergenceError: if the loss is not finite.
        """

    def pretrain(self, batch: Batch) -> Metrics:
        """Take one step on a minibatch of demonstrations to imitate, which has no weights.

        Raises:
            DivergenceError: if the loss is not finite.
        """
        return self._clone(batch)

    def update(self, batch: Batch) -> Metrics:
        """Take a step on each minibatch of demonstrations; return the loss before the last step.

        If there are no demonstrations yet, all rows are the policy's own, and nothing is learned or returned.

        Raises:
            DivergenceError: if the loss is not finite.
        """
        if self._learns_online:
            demonstrated = np.flatnonzero(batch["demonstration"])
            if not len(demonstrated):
                return {}
            if len(demonstrated) < len(batch["action"]):  # failures are not cloned; other rows replace them
                batch = {key: value[np.resize(demonstrated, len(value))] for key, value in batch.items()}
        metrics: Metrics = {}
        for first in range(0, len(batch["action"]), self._batch_size):
            rows = slice(first, first + self._batch_size)
            metrics = self._clone({key: value[rows] for key, value in batch.items()})
        return metrics

"""The agent of Q-chunking (Li et al. 2025)."""

from typing import Any

from robo_rl.core import Batch, EnvSpec, Metrics, State

from ..parts.native_flow_agent import NativeFlowAgent
from .config import QCConfig
from .policy import BestOfNPolicy


class QC(NativeFlowAgent):
    """An agent that takes the best of several chunks sampled from a flow, and learns the values of such choices; see
    :class:`QCConfig`.

    The newest critics choose, both the chunk to execute and the chunk of a target, whose value is that of the averaged
    critics. In evaluations the averaged flow and critics act.
    """

    _policy: BestOfNPolicy

    def __init__(self, config: QCConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, BestOfNPolicy(config, spec, seed), {}, seed)

    def pretrain_critics(self, batch: Batch) -> Metrics:
        """Take one step of :meth:`update`, on one minibatch of demonstrations.

        Raises:
            DivergenceError: see :meth:`update`.
        """
        metrics = super().pretrain_critics(batch)
        self._policy.value_steps += 1
        return metrics

    def update(self, batch: Batch) -> Metrics:
        """Take a step of all networks on each minibatch; see :meth:`.FlowActorCritic.update`."""
        metrics = super().update(batch)
        self._policy.value_steps += 1
        return metrics

    def load(self, state: State) -> None:
        """Continue from ``state`` bit for bit; see :meth:`.PolicyAgent.load`."""
        super().load(self._policy.completed(state))


def make_qc(*, spec: EnvSpec, seed: int, **fields: Any) -> QC:
    """Make the agent from the fields of :class:`QCConfig`."""
    return QC(QCConfig(**fields), spec, seed)

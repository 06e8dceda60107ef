"""The agent of Q-chunking (Li et al. 2025)."""

from typing import Any

from robo_rl.core import EnvSpec

from ..parts.native_flow_agent import NativeFlowAgent
from .config import QCConfig
from .policy import BestOfNPolicy


class QC(NativeFlowAgent):
    """An agent that takes the best of several chunks sampled from a flow, and learns the values of such choices; see
    :class:`QCConfig`.

    The newest critics choose, both the chunk to execute and the chunk of a target, whose value is that of the averaged
    critics. In evaluations the averaged flow and critics act.
    """

    def __init__(self, config: QCConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, BestOfNPolicy(config, spec, seed), {}, seed)


def make_qc(*, spec: EnvSpec, seed: int, **fields: Any) -> QC:
    """Make the agent from the fields of :class:`QCConfig`."""
    return QC(QCConfig(**fields), spec, seed)

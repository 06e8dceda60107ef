"""The agent: Q-chunking (Li et al. 2025)."""

from typing import Any

from robo_rl.core import EnvSpec

from ..parts.flow_actor_critic import FlowActorCritic
from .config import QCConfig
from .policy import BestOfNPolicy


class QC(FlowActorCritic):
    """Acts by the best of several chunks that a flow samples, and learns values of such chunks; see :class:`QCConfig`.

    Attributes:
        config: as given.

    Args:
        config: of the agent.
        spec: of the environment.
        seed: of the run.

    Raises:
        ConfigError: if the configuration does not fit the spec.
    """

    def __init__(self, config: QCConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, BestOfNPolicy(config, spec, seed), {}, seed)


def make_qc(*, spec: EnvSpec, seed: int, **fields: Any) -> QC:
    """Make the agent from the fields of :class:`QCConfig`."""
    return QC(QCConfig(**fields), spec, seed)

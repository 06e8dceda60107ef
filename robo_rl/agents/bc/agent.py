"""Agent of behaviour cloning: a deterministic policy from demonstrations or interventions."""

from typing import Any

from torch import Tensor

from robo_rl.core import Batch, EnvSpec, Metrics

from ..parts.cloning import BehaviourCloning
from ..parts.cloning_agent import CloningAgent
from ..parts.policy import TanhGaussianPolicy
from .config import BCConfig


class BC(CloningAgent):
    """An agent that regresses actions on those of demonstrators, with the actor of :class:`~robo_rl.agents.sac.SAC`."""

    def __init__(self, config: BCConfig, spec: EnvSpec, seed: int) -> None:
        policy = TanhGaussianPolicy(config, spec, seed)
        super().__init__(config, policy)
        self.config = config
        self._cloning = BehaviourCloning(policy, config.learning_rate)
        self.implementation = self._cloning.implementation

    @property
    def _has_learned(self) -> bool:
        return self._cloning.steps > 0

    def _clone(self, batch: Batch) -> Metrics:
        return self._cloning.step(batch)

    def _slots(self) -> dict[str, Tensor]:
        return self._policy.slots() | self._policy.plan_slots() | self._cloning.slots()


def make_bc(*, spec: EnvSpec, seed: int, **fields: Any) -> BC:
    """Make the agent from the fields of :class:`BCConfig`."""
    return BC(BCConfig(**fields), spec, seed)

"""The agent: behaviour cloning of a deterministic policy."""

from typing import Any

from torch import Tensor

from robo_rl.core import Batch, EnvSpec, Metrics

from ..sac.cloning import BehaviourCloning
from ..sac.offline import OfflineAgent
from ..sac.policy import TanhGaussianPolicy
from .config import BCConfig


class BC(OfflineAgent):
    """Regression of actions on the demonstrations; the actor of :class:`~robo_rl.agents.sac.SAC`.

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
        super().__init__(TanhGaussianPolicy(config, spec, seed), config.batch_size)
        self.config = config
        self._cloning = BehaviourCloning(self._policy, config.learning_rate)

    @property
    def _has_learned(self) -> bool:
        return self._cloning.steps > 0

    def update(self, batch: Batch) -> Metrics:
        """Take one step on rows of demonstrations; return ``bc_loss``, the mean squared error before it.

        Raises:
            DivergenceError: if the loss is not finite.
        """
        return self._cloning.step(batch)

    def _slots(self) -> dict[str, Tensor]:
        return self._policy.slots() | self._cloning.slots()


def make_bc(*, spec: EnvSpec, seed: int, **fields: Any) -> BC:
    """Make the agent from the fields of :class:`BCConfig`."""
    return BC(BCConfig(**fields), spec, seed)

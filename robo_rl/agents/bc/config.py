"""Configuration of behaviour cloning."""

from dataclasses import dataclass
from typing import ClassVar

from robo_rl.core import option

from ..parts.offline_config import OfflineConfig


@dataclass(frozen=True)
class BCConfig(OfflineConfig):
    """Behaviour cloning: a baseline that learns only from demonstrated actions, never from its own experience.

    Attributes (besides those of :class:`~robo_rl.agents.parts.offline_config.OfflineConfig`):
        learns_online: whether the agent acts while it learns from demonstrations and interventions (HG-DAgger, Kelly et
            al. 2019); false: it learns from demonstrations alone.
        update_to_data: gradient steps per environment step, if ``learns_online``.
        action_chunk: number of actions that the policy decides at once from one observation (ACT, Zhao et al. 2023); 1:
            a decision at every step.
    """

    gamma: ClassVar[float] = 1.0  # no returns are estimated
    imitates: ClassVar[bool] = True
    online_cloning_weight: ClassVar[float] = 0.0
    learns_online: bool = False
    update_to_data: int = option(1, low=1)
    action_chunk: int = option(1, low=1)

    @property
    def n_step(self) -> int:
        """Steps that a row of the data spans: the length of a chunk."""
        return self.action_chunk

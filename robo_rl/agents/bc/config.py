"""Configuration of behaviour cloning."""

from dataclasses import dataclass
from typing import ClassVar

from robo_rl.core import option

from ..parts.offline_config import OfflineConfig


@dataclass(frozen=True)
class BCConfig(OfflineConfig):
    """Behaviour cloning: a baseline that never learns from its own experience, only from what others did.

    Attributes (besides those of :class:`~robo_rl.agents.parts.offline_config.OfflineConfig`):
        learns_online: whether it acts while it learns, from the demonstrations and what those do who take over from it
            (HG-DAgger, Kelly et al. 2019); else from demonstrations alone.
        update_to_data: steps on these for each environment step, where it acts.
        action_chunk: steps whose actions the policy decides at once, from one observation, and takes without another
            look (ACT, Zhao et al. 2023); 1: every step is decided by itself.
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

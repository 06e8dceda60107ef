"""Configuration of behaviour cloning by flow matching."""

from dataclasses import dataclass
from typing import ClassVar

from robo_rl.core import option

from ..parts.offline_config import OfflineConfig


@dataclass(frozen=True)
class FlowCloningConfig(OfflineConfig):
    """Behaviour cloning by flow matching (Lipman et al. 2023), with the network of FQL (Park et al. 2025).

    The defaults are for two processor cores. The paper has hidden=[512,512,512,512].

    Attributes (besides those of :class:`~robo_rl.agents.parts.offline_config.OfflineConfig`):
        flow_steps: steps of Euler's method in which a decision carries noise to a chunk.
        actor_tau: share of the network that goes, after each step of learning, into its running average, which acts in
            evaluations and on robots; 1: no average. At first the average is that of all steps so far.
        learns_online: whether it acts while it learns, from the demonstrations and what those do who take over from it
            (HG-DAgger, Kelly et al. 2019); else from demonstrations alone.
        update_to_data: steps on these for each environment step, where it acts.
        action_chunk: steps whose actions the policy decides at once, from one observation, and takes without another
            look; 1: every step is decided by itself.
    """

    gamma: ClassVar[float] = 1.0  # no returns are estimated
    imitates: ClassVar[bool] = True
    online_cloning_weight: ClassVar[float] = 0.0
    hidden: tuple[int, ...] = (256, 256, 256)
    activation: str = "gelu"
    flow_steps: int = option(10, low=1)
    actor_tau: float = option(0.005, above=0, high=1)
    learns_online: bool = False
    update_to_data: int = option(1, low=1)
    action_chunk: int = option(4, low=1)

    @property
    def n_step(self) -> int:
        """Steps that a row of the data spans: the length of a chunk."""
        return self.action_chunk

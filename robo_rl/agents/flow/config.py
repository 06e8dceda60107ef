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
        flow_steps: steps of Euler's method that move noise to a chunk.
        actor_tau: coefficient of the running average of the network, updated after each gradient step, which acts in
            evaluations and on robots; 1: no average. At first the average is that of all steps so far.
        learns_online: whether the agent acts while it learns from demonstrations and interventions (HG-DAgger, Kelly et
            al. 2019); false: it learns from demonstrations alone.
        update_to_data: gradient steps per environment step, if ``learns_online``.
        action_chunk: number of actions that the policy decides at once from one observation; 1: a decision at every
            step.
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

"""Configuration of implicit Q-learning."""

from dataclasses import dataclass

from robo_rl.core import option, require

from ..parts.offline_config import OfflineConfig


@dataclass(frozen=True)
class IQLConfig(OfflineConfig):
    """Implicit Q-learning (Kostrikov et al. 2022) from a data set alone, good or bad, whatever rewards it gets.

    Attributes (besides those of :class:`~robo_rl.agents.parts.offline_config.OfflineConfig`):
        layer_norm: LayerNorm between each hidden layer of critics and value and its activation.
        gamma: discount per environment step.
        tau: share of the critics that goes into their targets after each update.
        expectile: tau of the paper, in [0.5, 1): 0.5 is the mean value of the data set's actions, 1 that of the best.
        inverse_temperature: beta of the paper: how much more an action is imitated the better it is; 0: not at all.
        largest_weight: an action counts at most this many times.
        n_step: environment steps whose rewards are summed before a target looks at the value.
    """

    layer_norm: bool = False
    gamma: float = option(0.97, low=0, high=1)
    tau: float = option(0.005, above=0, high=1)
    expectile: float = option(0.7, low=0.5, below=1)
    inverse_temperature: float = 3.0
    largest_weight: float = option(100.0, above=0)
    n_step: int = option(1, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        beta = self.inverse_temperature
        require(beta >= 0, "agent.inverse_temperature", "0 or more", beta)

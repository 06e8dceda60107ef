"""Configuration of implicit Q-learning."""

from dataclasses import dataclass

from robo_rl.core import option, require

from ..parts.offline_config import OfflineConfig


@dataclass(frozen=True)
class IQLConfig(OfflineConfig):
    """Implicit Q-learning (Kostrikov et al. 2022) from a data set alone, of any quality and with any reward.

    Attributes (besides those of :class:`~robo_rl.agents.parts.offline_config.OfflineConfig`):
        layer_norm: LayerNorm between each hidden layer of the critics and the value network and its activation.
        gamma: discount per environment step.
        tau: coefficient of the soft update of the target critics after each update.
        expectile: tau of the paper, in [0.5, 1): at 0.5 the value is the mean over the data set's actions, near 1 that
            of the best.
        inverse_temperature: beta of the paper: how much more the better actions are imitated; 0: all actions equally.
        largest_weight: largest weight of an action in imitation.
        n_step: environment steps whose rewards are summed before a target bootstraps from the value.
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

"""Configuration of implicit Q-learning."""

from dataclasses import dataclass
from typing import ClassVar

from robo_rl.core import require

from ..sac.config import ACTIVATIONS, require_choice


@dataclass(frozen=True)
class IQLConfig:
    """Implicit Q-learning (Kostrikov et al. 2022) from a data set alone, good or bad, whatever rewards it gets.

    Attributes:
        hidden: widths of the hidden layers of actor, critics and value.
        layer_norm: LayerNorm between each hidden layer of critics and value and its activation.
        actor_layer_norm: the same for the actor.
        activation: ``relu``, ``silu`` or ``tanh``.
        learning_rate: of Adam, for all networks [1].
        gamma: discount per environment step.
        tau: share of the critics that goes into their targets after each update.
        expectile: tau of the paper, in [0.5, 1): 0.5 is the mean value of the data set's actions, 1 that of the best.
        inverse_temperature: beta of the paper: how much more an action is imitated the better it is; 0: not at all.
        largest_weight: an action counts at most this many times.
        n_step: environment steps whose rewards are summed before a target looks at the value.
        batch_size: rows of each update.
        pretrain_steps: updates on the data set, before the first environment step.
        observation_keys: what the networks see; null: every key that is not an image.
        normalise_observations: shift and scale observations by mean and deviation of the data set.
    """

    # What the composition asks of every agent: all rows are of the data set.
    learns_online: ClassVar[bool] = False
    initial_log_std: ClassVar[float] = 0.0
    demonstration_ratio: ClassVar[float] = 1.0
    learning_starts: ClassVar[int] = 0
    random_steps: ClassVar[int] = 0
    update_to_data: ClassVar[int] = 1
    # A network this small is trained as fast on the CPU.
    device: ClassVar[str] = "cpu"

    hidden: tuple[int, ...] = (256, 256)
    layer_norm: bool = False
    actor_layer_norm: bool = False
    activation: str = "relu"
    learning_rate: float = 3e-4
    gamma: float = 0.97
    tau: float = 0.005
    expectile: float = 0.7
    inverse_temperature: float = 3.0
    largest_weight: float = 100.0
    n_step: int = 1
    batch_size: int = 256
    pretrain_steps: int = 10_000
    observation_keys: tuple[str, ...] | None = None
    normalise_observations: bool = True

    def __post_init__(self) -> None:
        # Hydra hands lists over.
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if self.observation_keys is not None:
            object.__setattr__(self, "observation_keys", tuple(self.observation_keys))
        widths = len(self.hidden) >= 1 and all(width >= 1 for width in self.hidden)
        require(widths, "agent.hidden", "one or more widths of 1 or more", list(self.hidden))
        require(0 < self.learning_rate < 1, "agent.learning_rate", "in (0, 1)", self.learning_rate)
        require(0 <= self.gamma <= 1, "agent.gamma", "in [0, 1]", self.gamma)
        require(0 < self.tau <= 1, "agent.tau", "in (0, 1]", self.tau)
        require(0.5 <= self.expectile < 1, "agent.expectile", "in [0.5, 1)", self.expectile)
        for key in ("inverse_temperature", "pretrain_steps"):
            require(getattr(self, key) >= 0, f"agent.{key}", "0 or more", getattr(self, key))
        require(self.largest_weight > 0, "agent.largest_weight", "above 0", self.largest_weight)
        for key in ("n_step", "batch_size"):
            require(getattr(self, key) >= 1, f"agent.{key}", "1 or more", getattr(self, key))
        require_choice("agent.activation", self.activation, ACTIVATIONS)

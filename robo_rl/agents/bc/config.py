"""Configuration of behaviour cloning."""

from dataclasses import dataclass
from typing import ClassVar

from robo_rl.core import require

from ..sac.config import ACTIVATIONS, require_choice


@dataclass(frozen=True)
class BCConfig:
    """Behaviour cloning: a baseline that never learns from its own experience, only from what others did.

    Attributes:
        learns_online: whether it acts while it learns, from the demonstrations and what those do who take over from it
            (HG-DAgger, Kelly et al. 2019); else from demonstrations alone.
        update_to_data: steps on these for each environment step, where it acts.
        hidden: widths of the hidden layers.
        actor_layer_norm: LayerNorm between each hidden layer and its activation.
        activation: ``relu``, ``silu`` or ``tanh``.
        learning_rate: of Adam [1].
        batch_size: rows of each step.
        pretrain_steps: steps on the demonstrations before the first environment step.
        observation_keys: what the network sees; null: every key that is not an image.
        normalise_observations: shift and scale observations by mean and deviation of the demonstrations.
    """

    # What the composition asks of every agent: all rows are demonstrations, and no returns are estimated.
    initial_log_std: ClassVar[float] = 0.0
    gamma: ClassVar[float] = 1.0
    n_step: ClassVar[int] = 1
    demonstration_ratio: ClassVar[float] = 1.0
    learning_starts: ClassVar[int] = 0
    random_steps: ClassVar[int] = 0
    # A network this small is trained as fast on the CPU.
    device: ClassVar[str] = "cpu"

    learns_online: bool = False
    update_to_data: int = 1
    hidden: tuple[int, ...] = (256, 256)
    actor_layer_norm: bool = False
    activation: str = "relu"
    learning_rate: float = 3e-4
    batch_size: int = 256
    pretrain_steps: int = 10_000
    observation_keys: tuple[str, ...] | None = None
    normalise_observations: bool = True

    def __post_init__(self) -> None:
        # Hydra hands lists over.
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if self.observation_keys is not None:
            object.__setattr__(self, "observation_keys", tuple(self.observation_keys))
        require(
            len(self.hidden) >= 1 and all(width >= 1 for width in self.hidden),
            "agent.hidden",
            "one or more widths of 1 or more",
            list(self.hidden),
        )
        require(0 < self.learning_rate < 1, "agent.learning_rate", "in (0, 1)", self.learning_rate)
        for key in ("update_to_data", "batch_size"):
            require(getattr(self, key) >= 1, f"agent.{key}", "1 or more", getattr(self, key))
        require(self.pretrain_steps >= 0, "agent.pretrain_steps", "0 or more", self.pretrain_steps)
        require_choice("agent.activation", self.activation, ACTIVATIONS)

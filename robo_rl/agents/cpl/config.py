"""Configuration of contrastive preference learning."""

from dataclasses import dataclass
from typing import ClassVar

from robo_rl.core import require

from ..sac.config import ACTIVATIONS, require_choice


@dataclass(frozen=True)
class CPLConfig:
    """Contrastive preference learning (Hejna et al. 2024) from a data set of which pairs of segments were compared.

    Attributes:
        hidden: widths of the hidden layers of the actor.
        actor_layer_norm: LayerNorm between each hidden layer and its activation.
        activation: ``relu``, ``silu`` or ``tanh``.
        learning_rate: of Adam [1].
        gamma: discount of the likelihoods within a segment; the authors' code has none, which is 1.
        temperature: alpha of the paper: by how much a preferred action is taken to be better, for each unit of the
            squared distance of another to it.
        conservative_weight: lambda of the paper, in [0, 1]: how much what was not preferred is pushed away, in
            relation to how much what was preferred is drawn near. At 1 both may drift away from the data together.
        batch_size: rows of each step of cloning.
        pairs: compared pairs of each step after that.
        cloning_steps: the first of ``pretrain_steps``, which imitate the whole data set.
        pretrain_steps: steps in all, before the first environment step. More of them learn wrong answers by heart.
        observation_keys: what the actor sees; null: every key that is not an image.
        normalise_observations: shift and scale observations by mean and deviation of the data set.
    """

    # What the composition asks of every agent: all rows are of the data set, and no returns are estimated.
    learns_online: ClassVar[bool] = False
    initial_log_std: ClassVar[float] = 0.0
    n_step: ClassVar[int] = 1
    demonstration_ratio: ClassVar[float] = 1.0
    learning_starts: ClassVar[int] = 0
    random_steps: ClassVar[int] = 0
    update_to_data: ClassVar[int] = 1
    # A network this small is trained as fast on the CPU.
    device: ClassVar[str] = "cpu"

    hidden: tuple[int, ...] = (256, 256)
    actor_layer_norm: bool = False
    activation: str = "relu"
    learning_rate: float = 3e-4
    gamma: float = 1.0
    temperature: float = 1.0
    conservative_weight: float = 0.5
    batch_size: int = 256
    pairs: int = 64
    cloning_steps: int = 1000
    pretrain_steps: int = 1500
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
        require(self.temperature > 0, "agent.temperature", "above 0", self.temperature)
        for key in ("gamma", "conservative_weight"):
            require(0 <= getattr(self, key) <= 1, f"agent.{key}", "in [0, 1]", getattr(self, key))
        for key in ("batch_size", "pairs"):
            require(getattr(self, key) >= 1, f"agent.{key}", "1 or more", getattr(self, key))
        for key in ("cloning_steps", "pretrain_steps"):
            require(getattr(self, key) >= 0, f"agent.{key}", "0 or more", getattr(self, key))
        require_choice("agent.activation", self.activation, ACTIVATIONS)

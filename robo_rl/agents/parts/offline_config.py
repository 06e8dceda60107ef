"""The common configuration of agents that learn from a data set alone."""

from dataclasses import dataclass
from typing import ClassVar

from robo_rl.core import Options, option, require

from .choices import ACTIVATIONS, require_choice


@dataclass(frozen=True)
class OfflineConfig(Options, section="agent"):
    """Options of an actor and of its training on the actions in a data set.

    Attributes:
        hidden: widths of the hidden layers of all networks.
        actor_layer_norm: LayerNorm between each hidden layer of the actor and its activation.
        activation: ``gelu``, ``relu``, ``silu`` or ``tanh``.
        learning_rate: learning rate of Adam for all networks.
        batch_size: number of rows in each gradient step.
        pretrain_steps: gradient steps on the data set before the first environment step.
        observation_keys: observation keys that the networks use; null: all keys that are not images.
        normalise_observations: normalise observations by mean and standard deviation of the data set.
    """

    # Read by the composition for every agent: all rows come from the data set, including failures.
    imitates: ClassVar[bool] = False
    online_cloning_weight: ClassVar[float] = 0.0
    initial_log_std: ClassVar[float] = 0.0
    sampled_actions: ClassVar[bool] = False
    random_steps: ClassVar[int] = 0
    # Networks of this size are trained as fast on the CPU.
    device: ClassVar[str] = "cpu"
    # The same, without annotations because they are options of some subclasses.
    imitates = False
    learns_online = False
    update_to_data = 1
    action_chunk = 1
    demonstration_ratio = 1.0
    learning_starts = 0

    hidden: tuple[int, ...] = (256, 256)
    actor_layer_norm: bool = False
    activation: str = "relu"
    learning_rate: float = option(3e-4, above=0, below=1)
    batch_size: int = option(256, low=1)
    pretrain_steps: int = option(10_000, low=0)
    observation_keys: tuple[str, ...] | None = None
    normalise_observations: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        # Hydra passes lists.
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if self.observation_keys is not None:
            object.__setattr__(self, "observation_keys", tuple(self.observation_keys))
        widths = len(self.hidden) >= 1 and all(width >= 1 for width in self.hidden)
        require(widths, "agent.hidden", "one or more widths of 1 or more", list(self.hidden))
        require_choice("agent.activation", self.activation, ACTIVATIONS)

"""Configuration of the agent that learns from images."""

from dataclasses import dataclass, field

from robo_rl.core import option, require

from ..parts.choices import require_choice
from ..parts.encoder_config import EncoderConfig
from ..sac.config import SACConfig

IMPLEMENTATIONS = ("auto", "compile", "torch")
PRECISIONS = ("bfloat16", "float32")


@dataclass(frozen=True)
class DrQConfig(SACConfig):
    """DrQ (Yarats et al. 2021, 2022) with the critics and the demonstrations of RLPD.

    All fields of :class:`~robo_rl.agents.sac.SACConfig` keep their meaning, except that ``observation_keys`` are the
    actor's inputs beside the images, ``implementation`` cannot be ``native``, ``precision`` cannot be ``auto``,
    and ``actor_delay`` must be 0. The defaults suit two cores: the images take most of
    the time, not the critics, and few updates need large learning rates (those of Yarats et al. 2021). The agent
    explores more than ``agent=rlpd``, and its actor maximises the mean of the critics.

    Attributes:
        encoder: encoder of the images.
        image_keys: image observations that the agent uses, each ``images/<camera>``; null: all images of the task.
        critic_keys: observation keys that the critics use instead of the images and ``observation_keys``, for example
            [state,object], if training has more information than the robot; the actor's loss then trains the encoder.
            null: the same keys as the actor.
        shift: largest random shift of training images along either axis [pixels]; 0: none.
    """

    ensemble_size: int = 4
    update_to_data: int = 1
    actor_learning_rate: float = 1e-3
    critic_learning_rate: float = 1e-3
    online_cloning_weight: float = 0.0
    initial_log_std: float = -1.0
    initial_temperature: float = 0.01
    actor_q: str = "mean"
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    image_keys: tuple[str, ...] | None = None
    critic_keys: tuple[str, ...] | None = None
    shift: int = option(4, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("image_keys", "critic_keys"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, tuple(getattr(self, key)))
        require_choice("agent.implementation", self.implementation, IMPLEMENTATIONS)
        require_choice("agent.precision", self.precision, PRECISIONS)
        require(
            self.actor_delay == 0,
            "agent.actor_delay",
            "0 for an agent that learns from images, as the critics change the encoder, and with it the policy",
            self.actor_delay,
        )

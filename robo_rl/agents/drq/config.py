"""Configuration of the agent that learns from images."""

from dataclasses import dataclass, field

from robo_rl.core import Options, option, require

from ..parts.choices import require_choice
from ..parts.encoder_config import EncoderConfig
from ..sac.config import SACConfig

IMPLEMENTATIONS = ("auto", "compile", "torch")
PRECISIONS = ("bfloat16", "float32")


@dataclass(frozen=True)
class DormancyConfig(Options, section="agent.dormancy"):
    """Dormant neurons of the actor, and what is done about them (DrM, Xu et al. 2024).

    Attributes:
        interval: updates between two measurements of the share of dormant neurons in the actor's hidden layers, the
            metric ``dormant_ratio``; 0: never.
        threshold: a neuron is dormant whose mean magnitude is at most this share of the mean of its layer.
        perturb_interval: updates between two perturbations of actor, critics and encoder; 0: never.
        rate: the larger, the more is perturbed: f = 1 - rate * dormant_ratio is what networks keep of themselves.
        min_factor: lower limit of f.
        max_factor: upper limit of f.
    """

    interval: int = option(0, low=0)
    threshold: float = option(0.025, low=0)
    perturb_interval: int = option(0, low=0)
    rate: float = option(2.0, low=0)
    min_factor: float = 0.2
    max_factor: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        measured = self.interval > 0 or self.perturb_interval == 0
        require(measured, "agent.dormancy.interval", "above 0 where networks are perturbed", self.interval)
        low, high = self.min_factor, self.max_factor
        require(0 <= low <= 1, "agent.dormancy.min_factor", "in [0, 1]", low)
        require(low <= high <= 1, "agent.dormancy.max_factor", f"in [min_factor = {low:g}, 1]", high)


@dataclass(frozen=True)
class DrQConfig(SACConfig):
    """DrQ (Yarats et al. 2021, 2022) with the critics and the demonstrations of RLPD.

    All fields of :class:`~robo_rl.agents.sac.SACConfig` mean the same, with these differences: ``observation_keys``
    are what the actor sees beside the images; ``implementation`` has no ``native``, ``precision`` no ``auto``, and
    ``pretrain_critics`` is ``none``. The defaults suit two cores: most of the time goes to the images, not to the
    critics, and few updates need large learning rates (those of Yarats et al. 2021). It explores more than
    ``agent=rlpd``, and climbs the mean of its critics.

    Attributes:
        encoder: of the images.
        image_keys: images that the agent sees, each ``images/<camera>``; null: all that the task has.
        critic_keys: what the critics see in the place of images and ``observation_keys``, for example [state,object],
            where training knows more than the robot will; the actor's loss then trains the encoder. null: the same
            as the actor.
        shift: largest random shift of training images along either axis [pixels]; 0: none.
        dormancy: of the actor's neurons.
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
    dormancy: DormancyConfig = field(default_factory=DormancyConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("image_keys", "critic_keys"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, tuple(getattr(self, key)))
        require_choice("agent.implementation", self.implementation, IMPLEMENTATIONS)
        require_choice("agent.precision", self.precision, PRECISIONS)
        require(
            self.pretrain_critics == "none",
            "agent.pretrain_critics",
            "none for an agent that learns from images",
            self.pretrain_critics,
        )

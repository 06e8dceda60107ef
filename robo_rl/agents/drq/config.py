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
    """Dormant neurons of the actor, and perturbations against them (DrM, Xu et al. 2024).

    Attributes:
        interval: updates between measurements of the share of dormant neurons in the actor's hidden layers, the metric
            ``dormant_ratio``; 0: never.
        threshold: largest mean magnitude of a dormant neuron, relative to the mean of its layer.
        perturb_interval: updates between perturbations of actor, critics and encoder; 0: never.
        rate: strength of perturbations: networks keep the share f = 1 - rate * dormant_ratio of their parameters.
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

    All fields of :class:`~robo_rl.agents.sac.SACConfig` keep their meaning, except that ``observation_keys`` are the
    actor's inputs beside the images, ``implementation`` cannot be ``native``, ``precision`` cannot be ``auto``,
    ``pretrain_critics`` must be ``none``, and ``actor_delay`` 0. The defaults suit two cores: the images take most of
    the time, not the critics, and few updates need large learning rates (those of Yarats et al. 2021). The agent
    explores more than ``agent=rlpd``, and its actor maximises the mean of the critics.

    Attributes:
        encoder: encoder of the images.
        image_keys: image observations that the agent uses, each ``images/<camera>``; null: all of the task.
        critic_keys: observation keys that the critics use instead of the images and ``observation_keys``, for example
            [state,object], if more is known in training than on the robot; the encoder is then trained by the actor's
            loss. null: the same keys as the actor.
        shift: largest random shift of training images along either axis [pixels]; 0: none.
        dormancy: dormant neurons of the actor.
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
        require(
            self.actor_delay == 0,
            "agent.actor_delay",
            "0 for an agent that learns from images, as the critics change the encoder, and with it the policy",
            self.actor_delay,
        )

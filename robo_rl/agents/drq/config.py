"""Configuration of the agent that learns from images."""

from dataclasses import dataclass, field

from robo_rl.core import require

from ..sac.config import SACConfig, require_choice

HEADS = ("dense", "spatial_embeddings")
STAGES = 4
BACKENDS = ("auto", "compile", "torch")


@dataclass(frozen=True)
class EncoderConfig:
    """How the image of a camera becomes a vector. Every camera has an encoder of its own.

    Attributes:
        channels: of the convolutions, 3x3 with stride 2; not used with a checkpoint.
        checkpoint: safetensors file of a ResNet-10, -18 or -34, which takes the place of the convolutions; null: none.
        stages: how many of its four stages are used; each after the first halves the map and doubles the channels.
        frozen: whether the checkpoint's network stays as it is (and is one for all cameras).
        cached_views: randomly shifted views of each image for which the replay keeps what the frozen network makes of
            them (in half precision), computed once; 0: it computes anew at every update.
        head: what makes a vector of the last map: ``dense`` (of all its elements), or ``spatial_embeddings``
            (weighted sums over places, learned for each channel, as in SERL; then dense).
        embeddings: weighted sums of each channel for ``head=spatial_embeddings``.
        latent: width of the vector of each camera, after LayerNorm and tanh.
    """

    channels: tuple[int, ...] = (16, 32, 64, 64)
    checkpoint: str | None = None
    stages: int = 4
    frozen: bool = True
    cached_views: int = 0
    head: str = "dense"
    embeddings: int = 8
    latent: int = 64

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", tuple(self.channels))
        require(
            len(self.channels) >= 1 and all(width >= 1 for width in self.channels),
            "agent.encoder.channels",
            "one or more numbers of 1 or more",
            list(self.channels),
        )
        require(1 <= self.stages <= STAGES, "agent.encoder.stages", f"in [1, {STAGES}]", self.stages)
        require(self.cached_views >= 0, "agent.encoder.cached_views", "0 or more", self.cached_views)
        require(
            self.cached_views == 0 or (self.checkpoint is not None and self.frozen),
            "agent.encoder.cached_views",
            "0 unless there is a checkpoint and it is frozen",
            self.cached_views,
        )
        for key in ("embeddings", "latent"):
            require(getattr(self, key) >= 1, f"agent.encoder.{key}", "1 or more", getattr(self, key))
        require_choice("agent.encoder.head", self.head, HEADS)


@dataclass(frozen=True)
class DormancyConfig:
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

    interval: int = 0
    threshold: float = 0.025
    perturb_interval: int = 0
    rate: float = 2.0
    min_factor: float = 0.2
    max_factor: float = 0.9

    def __post_init__(self) -> None:
        for key in ("interval", "perturb_interval", "threshold", "rate"):
            require(getattr(self, key) >= 0, f"agent.dormancy.{key}", "0 or more", getattr(self, key))
        measured = self.interval > 0 or self.perturb_interval == 0
        require(measured, "agent.dormancy.interval", "above 0 where networks are perturbed", self.interval)
        low, high = self.min_factor, self.max_factor
        require(0 <= low <= 1, "agent.dormancy.min_factor", "in [0, 1]", low)
        require(low <= high <= 1, "agent.dormancy.max_factor", f"in [min_factor = {low:g}, 1]", high)


@dataclass(frozen=True)
class DrQConfig(SACConfig):
    """DrQ (Yarats et al. 2021, 2022) with the critics and the demonstrations of RLPD.

    All fields of :class:`~robo_rl.agents.sac.SACConfig` mean the same, with these differences: ``observation_keys``
    are what the actor sees beside the images; ``backend`` has no ``native``, and ``pretrain_critics`` is
    ``none``. The defaults suit two cores: the images, not the critics, take the time, and few updates want long steps
    (those of Yarats et al. 2021). It explores more than ``agent=rlpd``, and climbs the mean of its critics.

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
    initial_log_std: float = -1.0
    initial_temperature: float = 0.01
    actor_q: str = "mean"
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    image_keys: tuple[str, ...] | None = None
    critic_keys: tuple[str, ...] | None = None
    shift: int = 4
    dormancy: DormancyConfig = field(default_factory=DormancyConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("image_keys", "critic_keys"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, tuple(getattr(self, key)))
        require(self.shift >= 0, "agent.shift", "0 or more", self.shift)
        require_choice("agent.backend", self.backend, BACKENDS)
        require(
            self.pretrain_critics == "none",
            "agent.pretrain_critics",
            "none for an agent that learns from images",
            self.pretrain_critics,
        )
